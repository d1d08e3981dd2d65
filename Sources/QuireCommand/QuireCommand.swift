import ArgumentParser

@main
struct QuireCommand: AsyncParsableCommand {
    mutating func run() async throws {}
}
