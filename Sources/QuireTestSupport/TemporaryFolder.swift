public import Foundation

/// A new empty folder that is removed when nothing holds it any more.
public final class TemporaryFolder: Sendable {
    /// The folder.
    public let url: URL
    /// Its path.
    public var path: String { url.path }

    /// Makes a folder.
    public init() throws {
        // Before anything is made in it, so that it is protected as well.
        _ = TestProtection.isOn
        url = FileManager.default.temporaryDirectory
            .appendingPathComponent("quire-test-\(UUID().uuidString)", isDirectory: true)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// A path in the folder.
    public func path(_ name: String) -> String { url.appendingPathComponent(name).path }

    deinit { try? FileManager.default.removeItem(at: url) }
}
