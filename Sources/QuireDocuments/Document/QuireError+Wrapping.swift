import Quire

extension QuireError {
    /// An error as it is, or, if it is of another kind, as the cause of one of ours.
    init(wrapping error: any Error, path: String) {
        self =
            error as? QuireError
            ?? QuireError(
                .inputOutput, "Something failed with “\(path)”: \(error).",
                subject: .init(file: path), underlying: error)
    }
}
