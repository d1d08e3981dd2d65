import Testing

@Suite struct QuireModelFileTests {}
