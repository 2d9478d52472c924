"""The parts of a curve's page: each makes one section of it from `CurveData`."""
