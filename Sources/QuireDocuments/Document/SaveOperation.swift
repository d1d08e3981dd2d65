/// Whether a document is written where there is nothing yet, or over what is there.
public enum SaveOperation: Sendable, Hashable {
    /// Where there must be nothing yet.
    case creating
    /// Over a document that may be there.
    case overwriting
}
