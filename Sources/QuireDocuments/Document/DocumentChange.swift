/// What happened to something that a document does not see itself.
public enum DocumentChange: Sendable, Hashable {
    /// It was changed.
    case done
    /// A change was undone.
    case undone
    /// A change was redone.
    case redone
    /// It is as it was saved.
    case cleared
}
