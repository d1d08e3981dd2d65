import Testing

@Suite struct QuireStoreTests {}
