# The program that picks our comment out of a pull request's; GitHub's machines have it.
command -v jq >/dev/null || { apt-get update -qq && apt-get install -y -qq jq; }
