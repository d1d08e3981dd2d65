import Foundation
import QuireTestSupport
import Testing

@testable import QuireCommand

/// Files of the user's that a document, or a command's target, must not reach.
@Suite struct HostileTargetTests {
    private func shell() throws -> CommandShell {
        let shell = try CommandShell()
        _ = try shell.output("quire new D.quire --template Library")
        _ = try shell.output("quire insert D.quire Author name=Austen")
        return shell
    }

    // MARK: - Super-journals

    /// A rollback journal that names a super-journal, as `readSuperJournal` in SQLite's pager.c reads it.
    private func writeJournal(
        of database: String, naming victim: String, checksumError: Int = 0
    ) throws {
        func number(_ value: Int) -> [UInt8] {
            withUnsafeBytes(of: UInt32(value).bigEndian, Array.init)
        }
        let magic: [UInt8] = [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7]
        let size = try Data(contentsOf: URL(fileURLWithPath: database)).count
        var bytes = magic + number(0) + number(0) + number(size / 4096) + number(512) + number(4096)
        bytes += [UInt8](repeating: 0, count: 512 - bytes.count)
        let name = Array(victim.utf8)
        bytes += number(0x4000_0000 / 4096 + 1) + name + number(name.count)
        bytes += number(name.reduce(0) { $0 + Int($1) } + checksumError) + magic
        try Data(bytes).write(to: URL(fileURLWithPath: database + "-journal"))
    }

    @Test(arguments: ["D.quire", "B.sqlite"])
    func aJournalThatNamesAnotherFileIsRefusedAndTheFileStays(document: String) throws {
        let shell = try shell()
        _ = try shell.output("quire convert D.quire B.sqlite --to sqlite")
        let database =
            document == "D.quire" ? "D.quire/StoreContent/persistentStore" : "B.sqlite"
        let victim = shell.path("victim.txt")
        for command in [
            "info \(document)", "check \(document)", "fetch \(document) Author",
            "set \(document) Author/p1 name=B", "repair \(document)",
            "convert \(document) New.xml --to xml", "dump \(document)",
        ] {
            try Data("precious".utf8).write(to: URL(fileURLWithPath: victim))
            try writeJournal(of: shell.path(database), naming: victim)
            let result = try shell.run("quire \(command)")
            #expect(result.code == 4, "\(command): \(result.output)")
            #expect(result.output.contains("victim.txt"), "\(command): \(result.output)")
            #expect(FileManager.default.fileExists(atPath: victim), "\(command)")
        }
        // It does not open the database, but reads its pages.
        _ = try shell.run("quire recover \(document) New\(document)")
        #expect(FileManager.default.fileExists(atPath: victim))
    }

    @Test func aJournalWithoutASoundNameIsPlayedBack() throws {
        let shell = try shell()
        _ = try shell.output("quire convert D.quire B.sqlite --to sqlite")
        let victim = shell.path("victim.txt")
        try Data("precious".utf8).write(to: URL(fileURLWithPath: victim))
        for database in ["D.quire/StoreContent/persistentStore", "B.sqlite"] {
            try writeJournal(of: shell.path(database), naming: victim, checksumError: 1)
            #expect(try shell.output("quire fetch \(database) Author --count") == "1\n")
            #expect(FileManager.default.fileExists(atPath: victim))
        }
    }

    @Test func anEmptyOrShortJournalIsNone() throws {
        let shell = try shell()
        for bytes in ["", "0123456789"] {
            try Data(bytes.utf8).write(
                to: URL(
                    fileURLWithPath: shell.path("D.quire/StoreContent/persistentStore-journal")))
            #expect(try shell.output("quire fetch D.quire Author --count") == "1\n")
        }
    }

    // MARK: - Targets

    @Test func nothingIsMadeInsideADocument() throws {
        let shell = try shell()
        _ = try shell.output("quire versions keep D.quire")
        _ = try shell.output("quire export D.quire D.zip")
        _ = try shell.output("quire new Other.quire --template Library")
        _ = try shell.output("cp -r D.quire Before && cp -r Other.quire OtherBefore")
        for target in ["D.quire/X.quire", "Other.quire/AdditionalContent/X.quire"] {
            for command in [
                "recover D.quire \(target)", "extract D.zip \(target)",
                "recover D.quire/StoreContent/persistentStore \(target.dropLast(6)).sqlite",
                "versions show D.quire latest --to \(target)", "save-as D.quire \(target)",
                "new \(target) --template Notes",
                "convert D.quire \(target.dropLast(6)).xml --to xml",
            ] {
                _ = try shell.output(
                    "mkdir -p Other.quire/AdditionalContent OtherBefore/AdditionalContent")
                let result = try shell.run("quire \(command)")
                #expect(result.code == 4, "\(command): \(result.output)")
                #expect(
                    result.output.contains("choose a path outside"), "\(command): \(result.output)"
                )
            }
        }
        #expect(try shell.output("diff -r D.quire Before && diff -r Other.quire OtherBefore") == "")
    }

    // MARK: - Limits

    @Test(arguments: ["export D.quire D.zip", "save-as D.quire E.quire", "versions keep D.quire"])
    func aFileSizeLimitIsReported(command: String) throws {
        let shell = try shell()
        // A log that the limit keeps from being merged stays, and is merged when the document is opened next.
        let list = "find . -not -name 'persistentStore-*' | sort"
        let before = try shell.output(list)
        let result = try shell.run("ulimit -f 4; quire \(command)")
        #expect(result.code == 1, "\(command): \(result.output)")
        #expect(result.output.hasPrefix("quire: "), "\(command): \(result.output)")
        #expect(try shell.output(list) == before, "\(command)")
        _ = try shell.output("quire check D.quire")
    }

    // MARK: - Missing files

    @Test func aMissingExternalFileIsInvalidDataWhereverItIsRead() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new N.quire --template Notes")
        _ = try shell.output("head -c 300000 /dev/urandom > picture")
        _ = try shell.output("quire insert N.quire Attachment name=a")
        _ = try shell.output("quire data put N.quire Attachment/p1 data picture")
        _ = try shell.output("rm N.quire/StoreContent/.persistentStore_SUPPORT/_EXTERNAL_DATA/*")
        for command in [
            "check N.quire", "dump N.quire", "data get N.quire Attachment/p1 data -o out",
            "convert N.quire N.sqlite --to sqlite", "convert N.quire N.xml --to xml",
            "convert N.quire N.binary --to binary",
        ] {
            let result = try shell.run("quire \(command)")
            #expect(result.code == 4, "\(command): \(result.output)")
        }
        #expect(try shell.output("ls").split(separator: "\n") == ["N.quire", "picture"])
    }

    @Test func whatCannotBeReadForAValueIsASentence() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new N.quire --template Notes && mkdir folder && echo x > file")
        _ = try shell.output("quire insert N.quire Attachment name=a")
        for (file, code) in [("NOFILE", 3), ("folder", 1)] {
            let result = try shell.run("quire data put N.quire Attachment/p1 data \(file)")
            #expect(
                result.code == code && result.output.hasPrefix("quire: "),
                "\(file): \(result.output)")
        }
        _ = try shell.output("head -c 300000 /dev/zero > large")
        let full = try shell.run("ulimit -f 100; quire data put N.quire Attachment/p1 data large")
        #expect(full.code == 1 && full.output.hasPrefix("quire: "), "\(full.output)")
        #expect(
            try shell.output("quire check N.quire; quire data list N.quire").contains("No values"))
    }
}
