import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire verify ARCHIVE`
struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Checks an archive against its manifest and its signature.",
        discussion: """
            Reads the whole archive and writes nothing. Its files must be exactly those in its \
            manifest, which export writes; an archive from another program has none. Exit code 4 \
            if the archive is damaged, was changed after it was signed, or is not signed by an \
            allowed signer.

            The file of allowed signers has the OpenSSH format: a line per signer with an \
            identity, options and a public key. Without it, any valid signature is accepted, and \
            the key's fingerprint is printed. Only Ed25519 signatures can be checked; ssh-keygen \
            checks those of other keys.

            EXAMPLES:
              quire verify Library.zip
              quire verify Library.zip --allowed-signers ~/.ssh/allowed_signers
              quire verify Library.zip --allowed-signers allowed --signer ada@example.org
              curl -s https://example.org/Library.zip | quire verify -
            """)

    @Argument(help: ArgumentHelp("An archive, or - for standard input.", valueName: "ARCHIVE"))
    var archive: String

    @Option(
        help: ArgumentHelp("File of allowed signers.", valueName: "FILE"))
    var allowedSigners: String?

    @Option(
        help: ArgumentHelp(
            "Required signer; any listed signer by default.", valueName: "IDENTITY"))
    var signer: String?

    @OptionGroup var printing: JSONOption

    func validate() throws {
        if signer != nil && allowedSigners == nil {
            throw ValidationError("--signer requires --allowed-signers.")
        }
    }

    func run() async throws {
        let source = archive == "-" ? "standard input" : archive
        let verified = try ProgressBar.showing("Verifying \(source)", of: .bytes) { progress in
            archive == "-"
                ? try DocumentPackage.verify(
                    descriptor: STDIN_FILENO, named: source, allowedSigners: allowedSigners,
                    identity: signer, progress: progress)
                : try DocumentPackage.verify(
                    archive: archive, allowedSigners: allowedSigners, identity: signer,
                    progress: progress)
        }
        let files = Count.of(verified.files, "file")
        let bytes = Count.of(Int(verified.bytes), "byte")
        try printing.printResult(
            reportsChanges: false,
            ["Verified \(source): \(files), \(bytes).", description(of: verified.signer)]
        ) {
            .object([
                "path": .string(archive), "files": .integer(Int64(verified.files)),
                "bytes": .integer(verified.bytes),
                "signer": verified.signer.map { signer in
                    JSONValue.object([
                        "keyType": .string(signer.keyType),
                        "fingerprint": .string(signer.fingerprint),
                        "principals": JSONValue(signer.principals),
                    ])
                } ?? .null,
            ])
        }
    }

    private func description(of signer: ArchiveSigner?) -> String {
        guard let signer else { return "It is not signed." }
        let key = "the \(signer.keyType) key \(signer.fingerprint)"
        if let principals = signer.principals { return "Signed by \(principals), with \(key)." }
        return
            "Signed with \(key), which was not checked against allowed signers; specify --allowed-signers."
    }
}
