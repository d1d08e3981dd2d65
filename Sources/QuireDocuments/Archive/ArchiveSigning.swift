import Foundation
import Quire

/// Signs manifests by running OpenSSH's `ssh-keygen`, so that private keys stay with it, with an agent or in hardware.
struct ArchiveSigning {
    /// The path of the private key, or of the public key if an agent has the private one.
    let key: String
    /// The archive, for errors.
    let archive: String

    /// The program, which is looked for in the folders of `PATH`.
    private static let program = "ssh-keygen"

    /// Checks that the file of the key exists, before anything is exported.
    func checkKey() throws {
        if !FileSystem.exists(key) { throw FileSystem.failure("open", key, errno: ENOENT) }
    }

    /// The armored signature of a manifest.
    ///
    /// A passphrase is asked for on the terminal if standard input is one. Otherwise the program has no terminal, so that it fails, or
    /// asks in a window.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the program is missing, `inputOutput` if it fails, or what writing
    ///   a temporary file throws.
    func sign(_ manifest: Data) throws -> Data {
        let folder = try TemporarySibling.makeFolderInTemporaryDirectory()
        defer { folder.remove() }
        let message = FileSystem.path(folder.path, "manifest.json")
        try FileSystem.writeNewFile(manifest, at: message)
        let output = try OpenFile.inMemory(named: Self.program)
        let status = try run(
            [
                "-Y", "sign", "-n", ArchiveSignature.namespace, "-f", FileSystem.absolute(key),
                message,
            ],
            output: output)
        let signature = message + ".sig"
        // The status is unknown where the program's parent does not wait for its children.
        guard status == 0 || status == nil, FileSystem.exists(signature) else {
            let size = try output.information().size
            throw failure(try output.read(Int(min(size, 65_536)), at: 0))
        }
        let armored = try OpenFile.open(signature, for: .reading)
            .readToEnd(limit: ArchiveSignature.maximumSize)
        do {
            try ArchiveSignature(armored: armored, archive: archive).verify(.init(manifest))
        } catch let error as QuireError where error.code == .unsupported {
            // Keys of other types can sign.
        }
        return armored
    }

    private func failure(_ output: [UInt8]) -> QuireError {
        // Without what it says of its work, the frames around warnings, and a prompt that it could not show.
        let lines = String(decoding: output, as: UTF8.self).split(whereSeparator: \.isNewline)
            .map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
            .map { $0.replacing(#/^Enter passphrase[^:]*: /#, with: "") }
            .filter { !$0.hasPrefix("@") && !$0.hasPrefix("Signing file ") && !$0.isEmpty }
        let reason = lines.isEmpty ? "It gave no reason." : lines.joined(separator: " ")
        return QuireError(
            .inputOutput,
            "The archive was not written, because \(Self.program) could not sign it with “\(key)”: \(reason.prefix(1000))",
            file: key)
    }

    /// Runs the program to its end.
    ///
    /// - Returns: Its exit status; see ``ChildProgram/wait()``.
    private func run(_ arguments: [String], output: OpenFile) throws -> Int32? {
        let isInteractive = isatty(STDIN_FILENO) == 1
        var descriptors: [Int32: Int32?] = [
            STDOUT_FILENO: output.descriptor, STDERR_FILENO: output.descriptor,
        ]
        if !isInteractive { descriptors[STDIN_FILENO] = .some(nil) }
        do {
            return try ChildProgram(
                running: Self.program, arguments, descriptors: descriptors,
                hasTerminal: isInteractive
            ).wait()
        } catch let error as QuireError where error.code == .notFound {
            throw QuireError(
                .unsupported,
                "The archive was not written, because the signing program \(Self.program) is not installed; install OpenSSH.",
                file: archive)
        }
    }
}
