/// What happened to a document package that is watched; see ``PackageWatch``.
public enum PackageEvent: Sendable, Hashable {
    /// The package is at another path now, because it or a folder above it was renamed, and nothing is at the old one.
    case moved(to: String)
    /// The package is nowhere any more. It is the last event.
    case deleted
    /// Another file or folder is at the package's path now. The package itself is at the other path, or, if that is `nil`,
    /// nowhere any more; then it is the last event.
    case replaced(movedTo: String?)
    /// Something was written in the package, by whomever: this process's own saves are told as well.
    case changed(PackageParts)
}

/// Parts of a package that may be written to.
public struct PackageParts: OptionSet, Sendable, Hashable {
    /// The bits.
    public let rawValue: Int

    /// Makes parts of bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The store: its file, its write-ahead log or its journal.
    public static let store = PackageParts(rawValue: 1 << 0)
    /// The generations of additional content. One that appears is of a save that has begun; the store says which is live.
    public static let additionalContent = PackageParts(rawValue: 1 << 1)
    /// The metadata file.
    public static let metadata = PackageParts(rawValue: 1 << 2)
    /// The lock file: somebody has opened the package for writing, or closed it.
    public static let lock = PackageParts(rawValue: 1 << 3)
    /// Anything else.
    public static let other = PackageParts(rawValue: 1 << 4)
    /// All parts.
    public static let all: PackageParts = [.store, .additionalContent, .metadata, .lock, .other]
}
