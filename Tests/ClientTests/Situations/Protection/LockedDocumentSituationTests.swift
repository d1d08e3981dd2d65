import Foundation
import Quire
import QuireDocuments
import Testing

/// Documents whose keys are locked, changed, or lost while their programs go on.
@MainActor @Suite struct LockedDocumentSituationTests {
    nonisolated static let classes: [FileProtection] = [
        .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication,
    ]

    private func make(
        _ name: String, _ protected: ProtectedStore, _ protection: FileProtection = .complete
    ) async throws -> ManagedDocument {
        let document = ManagedDocument(fileURL: protected.folder.appendingPathComponent(name))
        document.autosavePolicy = .never
        document.fileProtection = protection
        document.protectionDomain = protected.domain
        try await document.create(model: ProtectedStore.model)
        try document.managedObjectContext.addList("saved", tasks: ["one"])
        try document.additionalContent.write(Data("an attachment".utf8), at: "a.txt")
        try await document.save()
        return document
    }

    private func names(_ url: URL) async throws -> [String] {
        let document = ManagedDocument(fileURL: url)
        try await document.open(readOnly: true)
        let names = try document.managedObjectContext.names()
        try await document.close()
        return names
    }

    private func code(_ body: @MainActor () async throws -> Void) async -> QuireError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? QuireError)?.code ?? .init(rawValue: "not a QuireError")
        }
    }

    // The vault locks itself while an entry is open: nothing that was typed may be gone, whatever its user does next.
    // bitwarden/desktop 389, mozilla-lockwise/lockwise-android 978, PhilippC/keepass2android 320.
    @Test func nothingIsLostByALockWhateverIsDoneNext() async throws {
        try await withProgramFolder { folder in
            let protected = try ProtectedStore(in: folder)
            let document = try await make("D.quire", protected)
            try document.managedObjectContext.addList("typed")
            await protected.lock()
            let unavailable = QuireError.Code.protectedDataUnavailable
            let copies = ["Copy.quire", "As.quire", "A.zip"].map(folder.appendingPathComponent)
            #expect(await code { try await document.save() } == unavailable)
            #expect(await code { try await document.close() } == unavailable)
            #expect(await code { try await document.writeCopy(to: copies[0]) } == unavailable)
            #expect(await code { try await document.save(as: copies[1]) } == unavailable)
            #expect(
                await code {
                    try await document.export(to: copies[2], protection: .keep)
                } == unavailable)
            #expect(await code { try await document.revert() } == unavailable)
            #expect(document.isOpen && document.hasUnsavedChanges)
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == [
                    "D.quire", "me.key", "me.keybag",
                ])
            try document.managedObjectContext.addList("typed while locked")
            try await protected.unlock()
            #expect(
                try document.managedObjectContext.names() == [
                    "saved", "typed", "typed while locked",
                ])
            try await document.writeCopy(to: copies[0])
            try await document.close()
            let url = folder.appendingPathComponent("D.quire")
            #expect(try await names(url) == ["saved", "typed", "typed while locked"])
            #expect(try await names(copies[0]) == ["saved", "typed", "typed while locked"])
            #expect(!protected.isReadable("an attachment"))
        }
    }

    // The file that unlocks a vault is deleted, or exchanged with that of another, while the program has it open.
    // cryptomator/ios 142, cryptomator/cryptomator 331.
    @Test(arguments: ["deleted", "exchanged", "empty"])
    func theKeybagIsLostWhileTheDocumentIsOpen(event: String) async throws {
        try await withProgramFolder { folder in
            let protected = try ProtectedStore(in: folder)
            let document = try await make("D.quire", protected)
            let own = document.fileURL.appendingPathComponent("Protection.keybag")
            let backup = try Data(contentsOf: own)
            let other = try await make("Other.quire", protected)
            let foreign = other.fileURL.appendingPathComponent("Protection.keybag")
            try await other.close()
            switch event {
            case "deleted": try FileManager.default.removeItem(at: own)
            case "exchanged": try Data(contentsOf: foreign).write(to: own)
            default: try Data().write(to: own)
            }
            try document.managedObjectContext.addList("later")
            // Whether or not it is noticed at once, what was typed is either saved or still unsaved.
            let saving = await code { try await document.save() }
            #expect(document.hasUnsavedChanges == (saving != nil))
            #expect(try document.managedObjectContext.names() == ["later", "saved"])
            try backup.write(to: own)
            try await document.close()
            let url = folder.appendingPathComponent("D.quire")
            #expect(try await names(url) == ["later", "saved"])
        }
    }

    // Documents of a person whose password is changed, or whose keybag is moved, put back from a backup, or copied to another
    // machine. cryptomator/cryptomator 138, 587 and 1277; rfjakob/gocryptfs 454.
    @Test func documentsOfAPersonOutliveTheirKeybag() async throws {
        try await withProgramFolder { folder in
            let path = folder.appendingPathComponent("me.keybag").path
            let backup = folder.appendingPathComponent("backup.keybag").path
            let url = folder.appendingPathComponent("D.quire")
            // The domain is one as long as it is held, also by what a closed document still does: each program has its own.
            weak var former: ProtectionDomain?
            func program(
                _ keybag: String, _ body: @MainActor (ProtectionDomain) async throws -> Void
            ) async throws {
                while former != nil { await Task.yield() }
                let domain = try ProtectionDomain.domain(of: keybag)
                former = domain
                #expect(!domain.isUnlocked)
                try await body(domain)
            }
            do {
                let domain = try await ProtectionDomain.setUp(at: path, passphrase: "pässword 1")
                former = domain
                let document = ManagedDocument(fileURL: url)
                document.fileProtection = .complete
                document.protectionDomain = domain
                try await document.create(model: ProtectedStore.model)
                try document.managedObjectContext.addList("mine")
                try await document.close()
            }
            try FileManager.default.copyItem(atPath: path, toPath: backup)
            try await program(path) { domain in
                // Typed on a system that decomposes accents.
                try await domain.changePassphrase(from: "pa\u{308}ssword 1", to: " two\nlines ")
                #expect(!domain.isUnlocked)
                #expect(
                    await code { try await domain.unlock(passphrase: "two\nlines") } == .wrongKey)
                try await domain.unlock(passphrase: " two\nlines ")
                #expect(try await names(url) == ["mine"])
            }
            // The backup has the former one, and its keys are those of the document.
            try FileManager.default.removeItem(atPath: path)
            try await program(backup) { domain in
                #expect(
                    await code { _ = try await names(url) } == .protectedDataUnavailable)
                try await domain.unlock(passphrase: "pässword 1")
                #expect(try await names(url) == ["mine"])
            }
            // A new keybag with the same password at the same place is not hers.
            while former != nil { await Task.yield() }
            do {
                let other = try await ProtectionDomain.setUp(at: path, passphrase: "pässword 1")
                #expect(other.isUnlocked)
                #expect(
                    await code { _ = try await names(url) } == .protectedDataUnavailable)
            }
        }
    }

    // The way to a protected file is a link. keepassxreboot/keepassxc 3435 (the link became a regular file).
    @Test(arguments: classes)
    func aDocumentIsUsedThroughALink(protection: FileProtection) async throws {
        try await withProgramFolder { folder in
            let protected = try ProtectedStore(in: folder)
            try await make("D.quire", protected, protection).close()
            let link = folder.appendingPathComponent("Link.quire")
            try FileManager.default.createSymbolicLink(
                atPath: link.path, withDestinationPath: "D.quire")
            let document = ManagedDocument(fileURL: link)
            try await document.open()
            #expect(document.fileProtection == protection)
            try document.managedObjectContext.addList("through the link")
            try await document.close()
            try DocumentPackage.setFileProtection(.none, ofDocumentAt: link.path)
            #expect(protected.isReadable("through the link"))
            try DocumentPackage.setFileProtection(
                .complete, ofDocumentAt: link.path, domain: protected.domain)
            #expect(!protected.isReadable("through the link"))
            let kind = try FileManager.default.attributesOfItem(atPath: link.path)[.type]
            #expect(kind as? FileAttributeType == .typeSymbolicLink)
            await protected.lock()
            #expect(await code { _ = try await names(link) } == .protectedDataUnavailable)
            try await protected.unlock()
            let url = folder.appendingPathComponent("D.quire")
            #expect(try await names(url) == ["saved", "through the link"])
        }
    }

    // The class is changed in the settings while the document is open, with unsaved work; and asked for again when it is opened.
    // sqlcipher/sqlcipher 616 (a change of the key that did nothing and succeeded), m4heshd/better-sqlite3-multiple-ciphers 91.
    @Test(arguments: classes)
    func theClassOfAnOpenDocumentStaysAsItIs(protection: FileProtection) async throws {
        try await withProgramFolder { folder in
            let protected = try ProtectedStore(in: folder)
            let document = try await make("D.quire", protected, protection)
            let path = document.path
            try document.managedObjectContext.addList("unsaved")
            for other in [FileProtection.none, .complete, .completeUnlessOpen] {
                let changing = await code {
                    try DocumentPackage.setFileProtection(other, ofDocumentAt: path)
                }
                #expect(changing == (other == protection ? nil : .locked))
                #expect(try DocumentPackage.fileProtection(at: path) == protection)
            }
            try await document.close()
            let again = ManagedDocument(fileURL: folder.appendingPathComponent("D.quire"))
            again.fileProtection = protection == .complete ? .completeUnlessOpen : .complete
            #expect(await code { try await again.open() } == .protectionUnavailable)
            again.fileProtection = FileProtection.none
            try await again.open()
            #expect(again.fileProtection == protection)
            #expect(try again.managedObjectContext.names() == ["saved", "unsaved"])
            try again.managedObjectContext.addList("later")
            try await again.close()
            #expect(!protected.isReadable("later"))
        }
    }
}
