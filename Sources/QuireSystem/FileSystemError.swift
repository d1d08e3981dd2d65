import CLinux
import Foundation

extension FileSystem {
    /// The error for a failed system call.
    ///
    /// - Parameters:
    ///   - action: The failed action, to continue “Could not …”: a verb without the path.
    ///   - path: The object of the action.
    ///   - number: `errno` after the call, unless it still has that value.
    package static func failure(
        _ action: String, _ path: String, errno number: Int32? = nil
    ) -> QuireError {
        let number = number ?? errno
        let text = String(cString: strerror(number))
        let code: QuireError.Code
        let message: String
        switch number {
        case ENOENT:
            code = .notFound
            message = "“\(path)” does not exist."
        case EEXIST, ENOTEMPTY:
            code = .alreadyExists
            message = "“\(path)” already exists; remove it or choose another name."
        case ENOSPC, EDQUOT, EFBIG:
            code = .outOfSpace
            message = "Could not \(action) “\(path)”: \(text). Free some space and try again."
        case EROFS, EACCES, EPERM:
            code = .readOnly
            message = "Could not \(action) “\(path)”: \(text). Check the permissions there."
        case EMFILE, ENFILE:
            code = .inputOutput
            message =
                "Could not \(action) “\(path)”: \(tooManyOpenFiles(number))"
        case ENOTDIR:
            code = .notFound
            message = "Could not \(action) “\(path)”: part of the path is not a folder."
        default:
            code = .inputOutput
            message = "Could not \(action) “\(path)”: \(text)."
        }
        return QuireError(
            code, message,
            file: path, underlying: POSIXErrorCode(rawValue: number).map { POSIXError($0) })
    }

    /// The end of the sentence for `EMFILE` or `ENFILE`.
    package static func tooManyOpenFiles(_ number: Int32) -> String {
        number == EMFILE
            ? "this process has too many files open. Close some, or raise the limit with “ulimit -n”."
            : "the system has too many files open. Close some programs, and try again."
    }
}

extension FileSystem {
    /// The error for an error thrown by Foundation: itself if it is a ``QuireError``, otherwise that of the underlying system
    /// call, as far as Foundation reports it.
    ///
    /// - Parameters:
    ///   - action: The failed action; see ``failure(_:_:errno:)``.
    ///   - path: The object of the action, unless the error has a path.
    package static func failure(
        _ action: String, _ path: String?, thrown error: any Error
    ) -> QuireError {
        if let error = error as? QuireError { return error }
        let details = error as NSError
        let named = details.userInfo[NSFilePathErrorKey] as? String
        let path = named ?? (details.userInfo[NSURLErrorKey] as? URL)?.path ?? path
        if let path, let number = errorNumber(of: details) {
            var failure = failure(action, path, errno: number)
            failure.underlying = error
            return failure
        }
        let subject = path.map { " “\($0)”" } ?? ""
        return QuireError(
            .inputOutput, "Could not \(action)\(subject): \(details.localizedDescription)",
            file: path, underlying: error)
    }

    private static func errorNumber(of error: NSError) -> Int32? {
        if error.domain == NSPOSIXErrorDomain { return Int32(truncatingIfNeeded: error.code) }
        if let cause = error.userInfo[NSUnderlyingErrorKey] as? any Error,
            let number = errorNumber(of: cause as NSError)
        {
            return number
        }
        guard error.domain == NSCocoaErrorDomain else { return nil }
        switch CocoaError.Code(rawValue: error.code) {
        case .fileWriteOutOfSpace: return ENOSPC
        case .fileNoSuchFile, .fileReadNoSuchFile: return ENOENT
        case .fileReadNoPermission, .fileWriteNoPermission: return EACCES
        case .fileWriteVolumeReadOnly: return EROFS
        case .fileWriteFileExists: return EEXIST
        default: return nil
        }
    }
}

extension QuireError {
    /// A copy of the error that names another path instead of a temporary one, or paths beneath it: the temporary file no
    /// longer exists when the error is read.
    package func naming(_ path: String, insteadOf temporary: String) -> QuireError {
        var error = self
        error.message.replace(temporary, with: path)
        error.subject.file?.replace(temporary, with: path)
        error.failures = failures.map { $0.naming(path, insteadOf: temporary) }
        return error
    }
}

extension FileSystem {
    /// Runs a body that builds under a temporary path. Its errors name the final path.
    package static func building<Result>(
        _ path: String, as temporary: String, _ body: () throws -> Result
    ) throws -> Result {
        do {
            return try body()
        } catch let error as QuireError {
            throw error.naming(path, insteadOf: temporary)
        }
    }
}
