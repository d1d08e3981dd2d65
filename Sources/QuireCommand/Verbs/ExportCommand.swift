public import ArgumentParser
import Foundation
import Quire
public import QuireDocuments

/// `quire export PATH ARCHIVE`
struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Packs a document into one file.",
        discussion: """
            The extension of the archive determines its format: .zip, .quirez (a document in one \
            file), .tar, .tar.gz, .tar.xz or .tar.zst. Any program unpacks them to a document \
            that opens. Exporting an unchanged document again gives an equal archive, unless it is \
            protected. A damaged document is not exported; use recover first. A synchronized \
            document is exported only if all of its large values have arrived.

            For a protected document, specify the protection of the archive. With \
            --keep-protection it is encrypted, and opens with the same keys. With \
            --remove-protection anyone who can read the archive can read its content.

            EXAMPLES:
              quire export Library.quire Library.zip
              quire export Library.quire Library.tar.zst --level 19
              quire export Library.quire - | ssh host 'cat > Library.zip'
              quire export Diary.quire Diary.zip --keep-protection
            """)

    @Argument(help: ArgumentHelp("A document package.", valueName: "PATH"))
    var path: String

    @Argument(
        help: ArgumentHelp("The archive to make; - for standard output.", valueName: "ARCHIVE"))
    var archive: String

    @Option(
        help: ArgumentHelp(
            "The format, whatever the extension: zip, quirez, tar, tar.gz, tar.xz or tar.zst.",
            valueName: "FORMAT"))
    var format: ArchiveFormat?

    @Option(
        help: ArgumentHelp(
            "The level of compression: 0 to 9, for tar.zst 1 to 19.", valueName: "N"))
    var level: Int?

    @Option(
        help: ArgumentHelp("The number of threads; one per processor by default.", valueName: "N"))
    var threads: Int?

    @Flag(help: "Replace an existing archive.")
    var replace = false

    @Flag(help: "Include the versions of the document.")
    var withVersions = false

    @Flag(help: "Leave out the history of changes.")
    var withoutHistory = false

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
        if archive == "-", replace || json {
            throw ValidationError("--replace and --json are for an archive that is a file.")
        }
    }

    private var protection: ArchiveProtection? {
        keepProtection ? .keep : removeProtection ? .remove : nil
    }

    @MainActor
    func run() async throws {
        let output = Output(json: json, reportsChanges: true)
        if archive == "-", isatty(STDOUT_FILENO) == 1 {
            throw Failure(
                sentence: "An archive is not for a terminal; name a file, or pipe the output.",
                status: .usage)
        }
        try DocumentPath.requirePackage(path, "only those are exported")
        try unlock.unlock(path)
        let isInClear = try removeProtection && DocumentPackage.fileProtection(at: path) != .none
        let package = try DocumentPackage.open(at: path, readOnly: true)
        let manifest: ArchiveManifest
        do {
            manifest = try export(package)
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
        if archive == "-" { return }
        let files = manifest.entries.count { !$0.path.hasSuffix("/") }
        if json {
            let bytes = try FileSystem.information(at: archive)?.size ?? 0
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

    private func export(_ package: DocumentPackage) throws -> ArchiveManifest {
        let options = ArchiveOptions(
            format: format, level: level, threads: threads, includesVersions: withVersions,
            includesHistory: !withoutHistory)
        if archive == "-" {
            return try package.export(
                to: STDOUT_FILENO, keepingDamage: keepDamage, protection: protection,
                options: options)
        }
        return try package.export(
            to: archive, replacing: replace, keepingDamage: keepDamage, protection: protection,
            options: options)
    }
}

extension ArchiveFormat: ExpressibleByArgument {}
