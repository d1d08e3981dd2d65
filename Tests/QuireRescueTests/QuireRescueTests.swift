import Testing

@Suite struct QuireRescueTests {}
