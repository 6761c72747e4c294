# no op is compiled: the lane runs on a CPU, over gloo
DS_BUILD_OPS=0 python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps deepspeed==0.19.8
