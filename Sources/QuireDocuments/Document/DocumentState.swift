public import Quire

/// What state a document is in: any of these, or none when it is open and well.
public struct DocumentState: OptionSet, Sendable, Hashable {
    /// The bits.
    public let rawValue: Int

    /// Makes a state of bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// It is open, nothing is wrong, and it may be edited.
    public static let normal: DocumentState = []
    /// It is not open.
    public static let closed = DocumentState(rawValue: 1 << 0)
    /// The last save failed. Nothing is lost: the changes are still in the document, which is to be saved again.
    public static let savingError = DocumentState(rawValue: 1 << 2)
    /// It may not be edited now, because it is being reverted or closed.
    public static let editingDisabled = DocumentState(rawValue: 1 << 3)
    /// It is being opened or saved.
    public static let progressAvailable = DocumentState(rawValue: 1 << 4)
}

/// A change of a document's state, with its reason.
public struct DocumentStateChange: Sendable {
    /// The state before.
    public var previous: DocumentState
    /// The state now.
    public var current: DocumentState
    /// The error that led to it, if one did.
    public var error: QuireError?
}
