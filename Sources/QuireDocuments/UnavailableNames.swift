// Common names for members that are called differently here: the compiler suggests the right one. None is declared in a class that
// programs subclass, because it would collide with members of the subclass.

extension AdditionalContent {
    /// The former name of ``remove(at:)``.
    @available(*, unavailable, renamed: "remove(at:)")
    public func remove(_ path: String) throws { try remove(at: path) }
    /// Another name of ``paths``.
    @available(*, unavailable, renamed: "paths")
    public var files: [String] { paths }
    /// Another name of ``paths``.
    @available(*, unavailable, renamed: "paths")
    public func list() -> [String] { paths }
}

extension AutosavePolicy {
    /// Unavailable; the delay is a `Duration`.
    @available(
        *, unavailable, message: "the delay is a Duration, such as '.seconds(1)'"
    )
    public init(delay: Double) { self.init(delay: .seconds(delay)) }
}
