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
    /// Somebody else has changed the package while it was open here, so that there are two contents for one document. See
    /// ``ManagedDocument/resolveConflict(keeping:)``.
    public static let inConflict = DocumentState(rawValue: 1 << 1)
    /// The last save failed. Nothing is lost: the changes are still in the document, which is to be saved again.
    public static let savingError = DocumentState(rawValue: 1 << 2)
    /// It may not be edited now, because it is being reverted or closed.
    public static let editingDisabled = DocumentState(rawValue: 1 << 3)
    /// It is being opened or saved.
    public static let progressAvailable = DocumentState(rawValue: 1 << 4)
}
