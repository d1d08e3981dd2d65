import Quire

extension QuireError {
    /// An error as it is, or, if it is of another kind, as the cause of one of ours.
    init(wrapping error: any Error, path: String) {
        self = FileSystem.failure("use", path, thrown: error)
    }
}
