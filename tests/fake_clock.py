"""The clock of every test about time: it stands still until the test moves it."""

from flopsight.capture.time.clock import Clock


class FakeClock:
    """Seconds that pass only by `pass_by`; `clock` reads them."""

    def __init__(self):
        self.seconds = 0.0
        self.clock = Clock(now=self.read, mark=self.read)

    def read(self):
        return self.seconds

    def pass_by(self, seconds):
        self.seconds += seconds


class FakeDeviceClock(FakeClock):
    """A host and a device: `launch` takes the host's time and queues work, which the device does in order."""

    def __init__(self):
        super().__init__()
        self.free_at = 0.0
        self.clock = Clock(now=self.read, wait=self.wait, mark=self.end_of_queue, queues=True)

    def launch(self, host, device):
        self.pass_by(host)
        self.free_at = self.end_of_queue() + device

    def end_of_queue(self):
        return max(self.free_at, self.seconds)

    def wait(self):
        self.seconds = self.end_of_queue()
