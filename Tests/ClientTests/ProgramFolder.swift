import Foundation

/// Runs a program with a folder for its files, which is removed afterwards.
@MainActor func withProgramFolder(_ program: @MainActor (URL) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory
        .appendingPathComponent("quire-client-\(UUID().uuidString)", isDirectory: true)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try await program(folder)
}
