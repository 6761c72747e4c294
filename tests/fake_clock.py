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
