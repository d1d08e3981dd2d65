package import Foundation

/// The errors that several modules throw about files.
extension QuireError {
    /// There is nothing at a path. `kind`: what should be there.
    package static func notFound(_ kind: String? = nil, at path: String) -> QuireError {
        QuireError(
            .notFound, "\(kind.map { "The \($0) " } ?? "")“\(path)” does not exist.", file: path)
    }

    /// There is something at the path of a new file.
    package static func alreadyExists(at path: String) -> QuireError {
        QuireError(
            .alreadyExists, "“\(path)” already exists; remove it or choose another name.",
            file: path)
    }

    /// A file does not stay the same for as long as it takes to read it.
    package static func beingWritten(at path: String) -> QuireError {
        QuireError(
            .locked,
            "Another process is writing “\(path)”; try again when it has finished.",
            file: path)
    }

    /// A store or document was opened for reading only. `name`: for one without a path.
    package static func readOnly(_ path: String?, name: String = "") -> QuireError {
        QuireError(
            .readOnly, "“\(path ?? name)” was opened for reading only and cannot be changed.",
            file: path)
    }

    /// A store has been closed. `name`: for one without a path.
    package static func closed(_ path: String?, name: String = "") -> QuireError {
        QuireError(.storeUnavailable, "“\(path ?? name)” has been closed.", file: path)
    }

    /// A folder, device or pipe where the file of a store must be.
    package static func noStoreFile(at path: String) -> QuireError {
        QuireError(.invalidFormat, "“\(path)” is not a file, so it cannot be a store.", file: path)
    }

    /// A file, or a part of one, was written by a newer version of Quire.
    package static func newerFormat(
        _ name: String, _ format: some BinaryInteger, readable: some BinaryInteger,
        file: String? = nil
    ) -> QuireError {
        QuireError(
            .unsupported,
            "\(name) has format \(format), but this version reads formats up to \(readable); open it with a newer version.",
            file: file)
    }
}

extension FileSystem {
    /// Throws unless there is a file at the path of a store.
    ///
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat`.
    package static func requireStoreFile(at path: String) throws {
        guard let information = try information(at: path) else {
            throw QuireError.notFound(at: path)
        }
        guard information.kind == .regular else { throw QuireError.noStoreFile(at: path) }
    }
}

extension Progress {
    /// Throws if the copy of a file was cancelled.
    package func checkCancelled(copying path: String) throws {
        try checkCancelled("Copying “\(path)” was cancelled.", file: path)
    }

    /// Throws if the operation was cancelled.
    package func checkCancelled(_ sentence: @autoclosure () -> String, file: String) throws {
        if isCancelled { throw QuireError(.cancelled, sentence(), file: file) }
    }
}
