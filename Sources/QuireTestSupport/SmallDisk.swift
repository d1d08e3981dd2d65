import Foundation
internal import QuireSystem
public import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a test where no ``SmallDisk`` can be mounted.
    public static var smallDisk: Self {
        .needs(SmallDisk.isPossible, or: "only root may mount a small disk")
    }
}

/// A file system in memory of a given size.
public final class SmallDisk: Sendable {
    /// Whether this process may mount one.
    public static let isPossible: Bool = {
        guard let disk = SmallDisk(megabytes: 1) else { return false }
        disk.unmount()
        return true
    }()

    /// The folder that it is mounted at.
    public let folder: String
    private let parent: TemporaryFolder
    private let options: String

    /// Mounts one; `nil` if that is not possible.
    public init?(megabytes: Int) {
        guard getuid() == 0, let parent = try? TemporaryFolder() else { return nil }
        self.parent = parent
        folder = parent.path("disk")
        options = "size=\(megabytes)m"
        guard (try? FileSystem.makeFolder(folder)) != nil, mount() else { return nil }
    }

    /// A path on it.
    public func path(_ name: String) -> String { FileSystem.path(folder, name) }

    /// Mounts another, empty one there, after ``unmount()``.
    @discardableResult
    public func mount() -> Bool {
        Self.run("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder])
    }

    /// Lets nobody write to it any more.
    public func makeReadOnly() { _ = Self.run("mount", ["-o", "remount,ro", folder]) }

    /// Unmounts it.
    ///
    /// - Returns: Whether it is unmounted. `false` if a file on it is open.
    @discardableResult
    public func unmount() -> Bool { Self.run("umount", [folder]) }

    /// Writes a file that leaves as many bytes free.
    public func fill(_ path: String, leaving room: Int) throws {
        let free = try FileManager.default.attributesOfFileSystem(forPath: folder)[.systemFreeSize]
        let size = max(((free as? NSNumber)?.intValue ?? 0) - room, 0)
        let file = try OpenFile.open(path, for: .creating)
        try file.write(Data(count: size))
    }

    private static func run(_ name: String, _ arguments: [String]) -> Bool {
        (try? ChildProcess.runAndWait("/usr/bin/env", [name] + arguments))?.status == 0
    }
}
