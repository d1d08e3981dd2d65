import Testing

@Suite struct QuireMigrationTests {}
