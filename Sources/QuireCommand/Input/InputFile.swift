import Foundation
import Quire

/// Reads files that somebody names on the command line.
enum InputFile {
    /// The content of a file.
    ///
    /// - Throws: `QuireError` with code `notFound` or `inputOutput`.
    static func read(_ path: String) throws -> Data {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw QuireError(
                .notFound, "There is no file “\(path)”.", subject: .init(file: path))
        }
        if isFolder.boolValue {
            throw QuireError(
                .inputOutput, "“\(path)” is a folder, not a file.", subject: .init(file: path))
        }
        do {
            // Not Data(contentsOf:), which does not read from pipes and devices.
            let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            defer { try? file.close() }
            return try file.readToEnd() ?? Data()
        } catch {
            throw QuireError(
                .inputOutput,
                "The file “\(path)” cannot be read: \(error.localizedDescription)",
                subject: .init(file: path), underlying: error)
        }
    }
}
