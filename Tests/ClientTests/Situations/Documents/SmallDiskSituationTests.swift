import Foundation
import Quire
import QuireDocuments
import Testing

/// Disks that fill up, become read-only, or are unmounted while documents are open.
@MainActor @Suite(.enabled(if: SmallVolume.isPossible, "only root may mount a small disk"))
struct SmallDiskSituationTests {
    private static let scan = Data((0..<700_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) })

    private func withVolume(
        megabytes: Int, _ program: @MainActor (SmallVolume, URL) async throws -> Void
    ) async throws {
        try await withProgramFolder { folder in
            let volume = try #require(
                SmallVolume(at: folder.appendingPathComponent("volume"), megabytes: megabytes))
            defer { volume.unmount() }
            try await program(volume, folder)
        }
    }

    // The disk is full when the document is saved, copied, versioned, restored or exported: the file is empty afterwards, and the work is gone.
    // (microsoft/vscode issue 34915, OpenShot/openshot-qt issue 5049, godotengine/godot issue 45354.)
    @Test(arguments: [
        "save", "version", "restore", "copy", "save as", "export", "duplicate", "replace",
    ])
    func aFullDiskLeavesTheDocumentAndTheWork(action: String) async throws {
        try await withVolume(megabytes: 6) { volume, folder in
            let url = volume.folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            try document.addSheet("scan", scan: Self.scan)
            try document.additionalContent.write(Data("old".utf8), at: "a.txt")
            let version = try await document.keepVersion()
            let other = volume.folder.appendingPathComponent("Other.quire")
            if action == "replace" { try await Folio.make(at: other, titles: ["other"]).close() }
            try document.addSheet("edited", scan: Data(Self.scan.reversed()))
            try document.additionalContent.write(Self.scan, at: "a.txt")
            if action == "restore" {
                // What is saved before is there already.
                try await document.save()
                try document.addSheet("second edit", scan: Self.scan + Self.scan)
            }
            try volume.fill(leaving: 200_000)
            let before = try document.titles
            let wasDirty = document.hasUnsavedChanges
            func act() async throws {
                switch action {
                case "save": try await document.save()
                case "version": _ = try await document.keepVersion()
                case "restore": try await document.restore(version.id)
                case "copy": try await document.writeCopy(to: other)
                case "save as": try await document.save(as: other)
                case "replace": try await document.save(as: other, replacing: true)
                case "duplicate": _ = try await document.duplicate()
                default:
                    try await document.export(
                        to: volume.folder.appendingPathComponent("A.tar.zst"))
                }
            }
            #expect(await errorCode { try await act() } == .outOfSpace)
            #expect(document.isOpen)
            #expect(document.path == url.path)
            #expect(document.hasUnsavedChanges == wasDirty)
            #expect(try document.titles == before)
            let names = try FileManager.default.contentsOfDirectory(atPath: volume.folder.path)
            #expect(
                Set(names)
                    == (action == "replace"
                        ? ["A.quire", "Other.quire", "filler"] : ["A.quire", "filler"]))
            if action == "replace" { #expect(try await Folio.savedTitles(at: other) == ["other"]) }
            // On another disk there is room.
            let rescue = folder.appendingPathComponent("Rescue.quire")
            try await document.writeCopy(to: rescue)
            #expect(try await Folio.savedTitles(at: rescue) == before)
            // And when there is room again, it is saved.
            try volume.free()
            try await document.save()
            #expect(!document.hasUnsavedChanges)
            if action == "restore" { try await document.restore(version.id) }
            try await document.close()
            let again = try await Folio.open(url)
            #expect(try again.titles == (action == "restore" ? ["saved", "scan"] : before))
            #expect(try await again.check() == [])
            try await again.close()
        }
    }

    // The autosave fails because the disk is full, the user goes on, and quits: the program closed anyway.
    // (KnuckleCracker/CW4-bug-tracker issue 834.)
    @Test func closingOnAFullDiskDropsNothing() async throws {
        try await withVolume(megabytes: 3) { volume, _ in
            let url = volume.folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            try volume.fill(leaving: 8_000)
            try document.addSheet("one", scan: Self.scan)
            #expect(await errorCode { try await document.autosave() } == .outOfSpace)
            #expect(document.documentState.contains(.savingError))
            try document.addSheet("two")
            #expect(await errorCode { try await document.close() } == .outOfSpace)
            #expect(document.isOpen)
            document.undoManager?.undo()
            document.undoManager?.redo()
            #expect(try document.titles == ["one", "saved", "two"])
            #expect(document.lastSaveError?.code == .outOfSpace)
            #expect(document.errors.count == 2)
            try volume.free()
            try await document.close()
            #expect(try await Folio.savedTitles(at: url) == ["one", "saved", "two"])
        }
    }

    // The file system becomes read-only under the open document, as after an error of the disk: every program behaves as if it had saved.
    // (KapiX/Koder issue 114.)
    @Test func aVolumeThatBecomesReadOnlyFailsSavesUntilItIsWritable() async throws {
        try await withVolume(megabytes: 6) { volume, folder in
            let url = volume.folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            try await document.close()
            #expect(volume.remount("ro"))
            #expect(await errorCode { try await document.open() } == .readOnly)
            try await document.open(readOnly: true)
            #expect(try document.titles == ["saved"])
            try document.addSheet("edited", scan: Self.scan)
            #expect(await errorCode { try await document.save() } == .readOnly)
            #expect(try await document.check() == [])
            let away = folder.appendingPathComponent("B.quire")
            try await document.save(as: away)
            #expect(!document.isReadOnly)
            try document.addSheet("later")
            try await document.close()
            #expect(try await Folio.savedTitles(at: away) == ["edited", "later", "saved"])
            #expect(
                await errorCode {
                    try await Folio.make(at: volume.folder.appendingPathComponent("C.quire"))
                        .close()
                } == .readOnly)
            #expect(
                await errorCode {
                    try await DocumentLibrary(folder: volume.folder).rename(url.path, to: "B")
                } == .readOnly)
            #expect(
                try await DocumentLibrary(folder: volume.folder).entries().map(\.objectCount) == [1]
            )
            #expect(volume.remount("rw"))
            try await document.open()
            try await document.close()
        }
    }

    // The drive is unplugged (the file system is gone), and another one is plugged in at the same place with a document of the same name: the
    // program wrote its work into that. (sublimehq/sublime_text issue 1525, atom/atom issue 11797.)
    @Test func anotherDriveInThePlaceOfTheFirstGetsNothing() async throws {
        try await withKnownIssue(
            "While other tests run, a save failed twice in some hundred runs with “mergeConflict”.",
            isIntermittent: true
        ) {
            try await tryAnotherDriveInThePlaceOfTheFirst()
        } matching: {
            ($0.error as? QuireError)?.code == .mergeConflict
        }
    }

    private func tryAnotherDriveInThePlaceOfTheFirst() async throws {
        try await withVolume(megabytes: 6) { volume, folder in
            let url = volume.folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            try document.addSheet("edited")
            #expect(volume.detach())
            #expect(volume.mount(megabytes: 6))
            try await Folio.make(at: url, titles: ["of the other drive"]).close()
            let code = await errorCode { try await document.save() }
            #expect(
                try await Folio.savedTitles(at: url) == ["of the other drive"],
                "\(String(describing: code))")
            // The work is in memory, and can be saved elsewhere; closing does not write it to the other drive.
            if document.isOpen {
                #expect(try document.titles == ["edited", "saved"])
                let rescue = folder.appendingPathComponent("Rescue.quire")
                try await document.save(as: rescue)
                try await document.close()
                #expect(try await Folio.savedTitles(at: rescue) == ["edited", "saved"])
            }
            #expect(try await Folio.savedTitles(at: url) == ["of the other drive"])
        }
    }
}

/// A small file system in memory.
@MainActor final class SmallVolume {
    nonisolated static let isPossible =
        NSUserName() == "root" && FileManager.default.fileExists(atPath: "/bin/mount")

    let folder: URL

    init?(at folder: URL, megabytes: Int) {
        self.folder = folder
        let manager = FileManager.default
        guard (try? manager.createDirectory(at: folder, withIntermediateDirectories: true)) != nil,
            mount(megabytes: megabytes)
        else { return nil }
    }

    func mount(megabytes: Int) -> Bool {
        run("mount", ["-t", "tmpfs", "-o", "size=\(megabytes)m", "tmpfs", folder.path])
    }

    func remount(_ option: String) -> Bool {
        run("mount", ["-o", "remount,\(option)", folder.path])
    }

    /// Takes it away, though files on it are open.
    func detach() -> Bool { run("umount", ["-l", folder.path]) }
    func unmount() { _ = detach() }

    private var filler: URL { folder.appendingPathComponent("filler") }

    func fill(leaving room: Int) throws {
        let attributes = try FileManager.default.attributesOfFileSystem(forPath: folder.path)
        let size = (attributes[.systemFreeSize] as? NSNumber)?.intValue ?? 0
        try Data(count: max(size - room, 0)).write(to: filler)
    }

    func free() throws { try FileManager.default.removeItem(at: filler) }

    private func run(_ name: String, _ arguments: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/\(name)")
        process.arguments = arguments
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}
