import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire export PATH ARCHIVE`
struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Packs a document into an archive.",
        discussion: """
            The extension of the archive determines its format: .zip or .tar.zst. Exporting an unchanged
            document again gives an equal archive, unless it is protected. A damaged document is \
            not exported; use recover first. A synchronized document is exported only if all of \
            its large values have arrived.

            For a protected document, specify the protection of the archive. With \
            --keep-protection it is encrypted, and opens with the same keys. With \
            --remove-protection anyone who can read the archive can read its content.

            EXAMPLES:
              quire export Library.quire Library.zip
              quire export Library.quire Library.tar.zst
              quire export Diary.quire Diary.zip --keep-protection
            """)

    @Argument(help: ArgumentHelp("A document package.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("The archive to make.", valueName: "ARCHIVE"))
    var archive: String

    @Flag(help: "Export a document even if it is damaged or incomplete.")
    var keepDamage = false

    @Flag(
        help: "Keep the files of a protected document encrypted; the archive contains its keybag.")
    var keepProtection = false

    @Flag(help: "Write an unencrypted archive of a protected document.")
    var removeProtection = false

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var unlock: UnlockOptions

    func validate() throws {
        if keepProtection && removeProtection {
            throw ValidationError("Give one of --keep-protection and --remove-protection.")
        }
    }

    private var protection: ArchiveProtection? {
        keepProtection ? .keep : removeProtection ? .remove : nil
    }

    @MainActor
    func run() async throws {
        let output = Output(json: json, reportsChanges: true)
        try DocumentPath.requirePackage(path, "only those are exported")
        try unlock.unlock(path)
        let isInClear = try removeProtection && DocumentPackage.fileProtection(at: path) != .none
        let package = try DocumentPackage.open(at: path, readOnly: true)
        do {
            try package.export(
                to: archive, keepingDamage: keepDamage, protection: protection)
        } catch var error as QuireError {
            try? package.close()
            if error.code == .protectionUnavailable {
                error.message += " Add --keep-protection or --remove-protection."
            }
            throw error
        }
        package.closeSaved()
        defer {
            if isInClear {
                Output.report(
                    "“\(archive)” is not encrypted: anyone who can read it can read its content.")
            }
        }
        let bytes = Int64(
            try FileManager.default.attributesOfItem(atPath: archive)[.size] as? Int ?? 0)
        let files = try DocumentPackage.manifest(ofArchive: archive).entries
            .count { !$0.path.hasSuffix("/") }
        if json {
            try output.print(
                .object([
                    "path": .string(archive), "bytes": .integer(bytes),
                    "files": .integer(Int64(files)),
                ]), levels: 0)
        } else {
            try output.print("Exported \(path) to \(archive): \(Count.of(files, "file")).")
        }
        try output.flush()
    }
}
