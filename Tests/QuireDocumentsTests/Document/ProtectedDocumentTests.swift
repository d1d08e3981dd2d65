import Foundation
import Quire
import QuireRescue
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Documents that are protected: what is on disk, and what can be done with it.
@Suite(.inClear) @MainActor struct ProtectedDocumentTests {
    let folder: TemporaryFolder
    let path: String
    let domain: ProtectionDomain
    private static let canary = "CANARY-5e8d"

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
        try ProtectionDomain.makeKeyFile(at: folder.path("key"))
        domain = try ProtectionDomain.setUp(
            at: folder.path("me.keybag"), keyFile: folder.path("key"))
    }

    nonisolated static let classes: [FileProtection] = [
        .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication,
    ]

    private static let picture = Data((canary + "picture").utf8) + Data(count: 300_000)
    private static let attachment = Data((canary + "attachment").utf8) + Data(count: 150_000)

    /// A document with objects, external data and additional content, saved and open.
    private func make(_ protection: FileProtection?) async throws -> ManagedDocument {
        let document = ManagedDocument(path: path)
        document.autosavePolicy = .never
        document.fileProtection = protection
        document.protectionDomain = protection == nil ? nil : domain
        try await document.create(model: notesModel)
        try document.addNote(Self.canary + "title", picture: Self.picture)
        try document.additionalContent.write(Self.attachment, at: "folder/attachment")
        try await document.save()
        return document
    }

    private func requireWhole(
        _ document: ManagedDocument, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(
            try document.titles().contains(Self.canary + "title"), sourceLocation: sourceLocation)
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note"))
                .first { $0["title", as: String.self] == Self.canary + "title" })
        #expect(note["picture", as: Data.self] == Self.picture, sourceLocation: sourceLocation)
        #expect(
            try document.additionalContent.data(at: "folder/attachment") == Self.attachment,
            sourceLocation: sourceLocation)
    }

    private func requireNoCanary(
        in path: String? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        var count = 0
        for (name, bytes) in try contents(ofFolder: path ?? folder.path) {
            count += 1
            #expect(
                bytes.range(of: Data(Self.canary.utf8)) == nil, "\(name)",
                sourceLocation: sourceLocation)
        }
        #expect(count > 5, sourceLocation: sourceLocation)
    }

    // MARK: Use

    @Test(arguments: classes) func nothingIsOnDiskInClearAndAllIsReadWithTheKey(
        _ protection: FileProtection
    ) async throws {
        let document = try await make(protection)
        #expect(document.fileProtection == protection)
        try requireNoCanary()
        // Unsaved: spooled external data and additional content, and a draft.
        let film = Data((Self.canary + "film").utf8) + Data(count: 200_000)
        try await document.additionalContent.write(
            AsyncStream {
                $0.yield(film); $0.finish()
            }, at: "film")
        let note = try document.addNote(Self.canary + "second")
        let handle = try #require(try document.additionalContent.fileHandle(forReading: "film"))
        try note.setExternalData(readingFrom: handle, forKey: "picture")
        try requireNoCanary()
        try await document.save()
        try requireNoCanary()
        #expect(try document.additionalContent.url(for: "film") == nil)
        #expect(note["picture", as: Data.self] == film)
        try await document.close()
        try requireNoCanary()
        #expect(try DocumentPackage.fileProtection(at: path) == protection)
        let again = ManagedDocument(path: path)
        try await again.open()
        try requireWhole(again)
        #expect(try again.additionalContent.data(at: "film") == film)
        #expect(
            try again.additionalContent.fileHandle(forReading: "film")?.readToEnd() == film)
        try await again.close()
        let reader = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try reader.packageProblems().isEmpty)
        #expect(try StoreCheck.run(reader.store).problems.isEmpty)
        try reader.close()
    }

    @Test(arguments: classes) func aLockedDocumentDoesNotOpenUnlessItsClassSaysSo(
        _ protection: FileProtection
    ) async throws {
        try await make(protection).close()
        await domain.lock(after: .zero)
        let document = ManagedDocument(path: path)
        let error = await failure { try await document.open() }
        if protection == .completeUntilFirstUserAuthentication {
            #expect(error == nil)
            try requireWhole(document)
            try await document.close()
        } else {
            #expect(error?.code == .protectedDataUnavailable)
            #expect(error?.subject.file == path)
        }
        #expect(try DocumentPackage.fileProtection(at: path) == protection)
        try await domain.unlock(keyFile: folder.path("key"))
        try await document.open()
        try requireWhole(document)
        try await document.close()
    }

    enum LockState: CaseIterable {
        case beforeFirstUnlock, unlocked, lockedAgain
    }

    /// A cell of the table of ``FileProtection``: whether documents are created, opened, and used while open.
    @Test(arguments: classes, LockState.allCases)
    func whatCanBeDoneIsAsTheTableOfClassesSays(
        _ protection: FileProtection, _ state: LockState
    ) async throws {
        let untilFirst = FileProtection.completeUntilFirstUserAuthentication
        let isOpenable =
            state == .unlocked || (state == .lockedAgain && protection == untilFirst)
        let isCreatable = isOpenable || protection == .completeUnlessOpen
        let open = try await make(protection)
        // Another document, which nobody holds, and the person's keybag as another process has it before the first unlock.
        let other = folder.path("Other.quire")
        let third = ManagedDocument(path: other)
        (third.fileProtection, third.protectionDomain) = (protection, domain)
        try await third.create(model: notesModel)
        let held = try #require(third.protectionDomain)
        try await third.close()
        var person = domain
        switch state {
        case .unlocked: break
        case .lockedAgain:
            await domain.lock(after: .zero)
            await held.lock(after: .zero)
        case .beforeFirstUnlock:
            let keybag = folder.path("elsewhere.keybag")
            try FileSystem.copyFile(folder.path("me.keybag"), to: keybag)
            person = try ProtectionDomain.domain(of: keybag)
            #expect(!person.wasUnlockedOnce)
        }
        // A new document.
        let new = ManagedDocument(path: folder.path("New.quire"))
        (new.fileProtection, new.protectionDomain) = (protection, person)
        let creating = await failure { try await new.create(model: notesModel) }
        #expect(creating?.code == (isCreatable ? nil : .protectedDataUnavailable))
        if creating == nil {
            try new.addNote(Self.canary, picture: Self.picture)
            try new.additionalContent.write(Self.attachment, at: "a")
            try await new.save()
            #expect(try new.titles() == [Self.canary])
            #expect(try new.additionalContent.data(at: "a") == Self.attachment)
            try requireNoCanary(in: new.path)
            try await new.close()
        }
        if state != .beforeFirstUnlock {
            let opening = await failure {
                let again = ManagedDocument(path: other)
                try await again.open()
                try await again.close()
            }
            #expect(opening?.code == (isOpenable ? nil : .protectedDataUnavailable))
            // The one that has been open.
            let using = failure { try requireWhole(open) }
            let saving = await failure {
                try open.addNote("more", picture: Self.picture)
                try await open.save()
            }
            let goesOn = isOpenable || protection == .completeUnlessOpen
            #expect(
                (using?.code, saving?.code)
                    == (goesOn
                        ? (nil, nil)
                        : (
                            .protectedDataUnavailable, .protectedDataUnavailable
                        )))
        }
        try await open.close(discardingChanges: true)
    }

    @Test func statusAndLibraryNeedNoKey() async throws {
        try await make(.complete).close()
        let path = path
        let open = try await FileQueue.copies.run { try DocumentPackage.status(at: path) }
        #expect(open.fileProtection == .complete && !open.isLocked)
        #expect(open.hasDraft == false && open.generation == 1 && open.leftovers == [])
        await domain.lock(after: .zero)
        let locked = try await FileQueue.copies.run { try DocumentPackage.status(at: path) }
        #expect(locked.fileProtection == .complete && locked.isLocked)
        #expect(locked.hasDraft == nil && locked.generation == nil && locked.leftovers == nil)
        #expect(locked.lastSaved == open.lastSaved && locked.versionCount == 0)
        let entry = DocumentLibrary.Entry(lookingAt: path)
        #expect(entry.fileProtection == .complete && entry.error == nil)
    }

    @Test func aNewDocumentIsOpenWithTheKeysOfItsOwnSlots() async throws {
        let document = ManagedDocument(path: path)
        document.fileProtection = .complete
        let key = try KeyFile.read(folder.path("key"))
        document.persistentStoreOptions.protectionSlots = [NewSlot(.keyFile(key), label: "own")]
        try await document.create(model: notesModel)
        try document.addNote(Self.canary)
        try await document.save()
        let own = try #require(document.protectionDomain)
        #expect(own.isUnlocked && own !== domain)
        #expect(own.slots.map(\.label) == ["own"])
        try await document.close()
        try requireNoCanary()
    }

    @Test func whileACompleteDocumentIsLockedEverythingThrows() async throws {
        let document = try await make(.complete)
        let note = try #require(
            try document.managedObjectContext.fetch(FetchRequest("Note")).first)
        document.managedObjectContext.refresh(note, mergeChanges: false)
        #expect(note["title", as: String.self] == Self.canary + "title")
        document.managedObjectContext.refresh(note, mergeChanges: false)
        try document.addNote("unsaved")
        await domain.lock(after: .zero)
        #expect(
            failure { _ = try document.additionalContent.data(at: "folder/attachment") }?.code
                == .protectedDataUnavailable)
        #expect(await failure { try await document.save() }?.code == .protectedDataUnavailable)
        #expect(document.hasUnsavedChanges)
        let context = document.managedObjectContext
        // A fault is not fulfilled from the coordinator's row cache either.
        _ = context.takeFaultError()
        _ = note["title", as: String.self]
        #expect(context.takeFaultError()?.code == .protectedDataUnavailable)
        #expect(note.isFault && note.isInaccessible)
        try await domain.unlock(keyFile: folder.path("key"))
        // The same document goes on, with the same objects and what was not saved.
        #expect(document.managedObjectContext === context)
        #expect(note["title", as: String.self] == Self.canary + "title" && !note.isInaccessible)
        try requireWhole(document)
        try await document.save()
        #expect(!document.hasUnsavedChanges)
        context.undo()
        #expect(try !document.titles().contains("unsaved"))
        context.redo()
        try await document.close()
        #expect(try await ManagedDocument.titles(at: path).contains("unsaved"))
    }

    @Test func aCompleteDocumentSavesItselfBeforeItIsLocked() async throws {
        let document = try await make(.complete)
        document.autosavePolicy = AutosavePolicy(delay: .seconds(1000))
        try document.addNote("in time")
        await domain.lock(after: .seconds(600))
        #expect(!domain.isUnlocked)
        #expect(!document.hasUnsavedChanges)
        // Made while it is locked, it waits for the unlock.
        document.autosavePolicy = AutosavePolicy(delay: .zero)
        document.updateChangeCount(.done)
        #expect(failure { _ = try document.titles() }?.code == .protectedDataUnavailable)
        #expect(document.hasUnsavedChanges)
        try await domain.unlock(keyFile: folder.path("key"))
        await document.waitUntil { !$0.hasUnsavedChanges }
        #expect(try document.titles().contains("in time"))
        try await document.close()
    }

    @Test func copiesHaveTheKeysOfTheirOriginal() async throws {
        let document = try await make(.complete)
        let (copy, other) = (folder.path("Copy.quire"), folder.path("Other.quire"))
        try document.addNote("unsaved")
        try await document.writeCopy(to: URL(fileURLWithPath: copy))
        try await document.save(as: URL(fileURLWithPath: other))
        try requireWhole(document)
        try document.addNote("more")
        try await document.save()
        try await document.move(to: URL(fileURLWithPath: folder.path("Moved.quire")))
        try requireWhole(document)
        try requireNoCanary()
        try await document.close()
        for path in [path, copy, folder.path("Moved.quire")] {
            let opened = ManagedDocument(path: path)
            try await opened.open()
            try requireWhole(opened)
            #expect(opened.fileProtection == .complete)
            try await opened.close()
        }
    }

    // MARK: Changing the class

    @Test(arguments: classes) func aDocumentIsProtectedAndNotAnyMoreWithAllThatItHas(
        _ protection: FileProtection
    ) async throws {
        try await make(nil).close()
        let bytes = try contents(ofFolder: path).values
        #expect(bytes.contains { $0.range(of: Data(Self.canary.utf8)) != nil })
        try DocumentPackage.setFileProtection(protection, ofDocumentAt: path, domain: domain)
        try requireNoCanary()
        let document = ManagedDocument(path: path)
        document.fileProtection = protection
        try await document.open()
        try requireWhole(document)
        try document.addNote("later")
        try await document.close()
        let other = protection == .complete ? FileProtection.completeUnlessOpen : .complete
        try DocumentPackage.setFileProtection(other, ofDocumentAt: path)
        #expect(try DocumentPackage.fileProtection(at: path) == other)
        try requireNoCanary()
        document.fileProtection = other
        try await document.open()
        try requireWhole(document)
        try await document.close()
        try DocumentPackage.setFileProtection(.none, ofDocumentAt: path)
        #expect(try DocumentPackage.fileProtection(at: path) == .none)
        let plain = ManagedDocument(path: path)
        try await plain.open()
        try requireWhole(plain)
        #expect(try plain.titles().contains("later"))
        try await plain.close()
    }

    @Test func aDocumentWithoutADomainIsOpenedByItsOwnKeyFile() async throws {
        let document = ManagedDocument(path: path)
        document.fileProtection = .complete
        document.persistentStoreOptions.protectionSlots = [
            NewSlot(.keyFile(try Data(contentsOf: URL(fileURLWithPath: folder.path("key")))))
        ]
        try await document.create(model: notesModel)
        try document.addNote("mine")
        let copy = folder.path("Copy.quire")
        try await document.save(as: URL(fileURLWithPath: copy))
        let held = try #require(document.protectionDomain)
        try await document.close()
        await held.lock(after: .zero)
        #expect(
            await failure { try await document.open() }?.code == .protectedDataUnavailable)
        let own = try #require(try DocumentPackage.protectionDomain(at: copy))
        try await own.unlock(keyFile: folder.path("key"))
        try await document.open()
        #expect(try document.titles() == ["mine"])
        try await document.close()
    }

    @Test func nothingIsProtectedSilentlyLess() async throws {
        let document = ManagedDocument(path: path)
        document.fileProtection = .complete
        #expect(
            await failure { try await document.create(model: notesModel) }?.code
                == .protectionUnavailable)
        #expect(!FileSystem.exists(path))
        try await make(nil).close()
        #expect(await failure { try await document.open() }?.code == .protectionUnavailable)
        let package = try DocumentPackage.open(at: path, readOnly: true)
        try package.close()
    }

    @Test func aDocumentThatIsOpenKeepsItsClass() async throws {
        let document = try await make(nil)
        #expect(
            failure {
                try DocumentPackage.setFileProtection(
                    .complete, ofDocumentAt: path, domain: domain)
            }?.code == .locked)
        #expect(try DocumentPackage.fileProtection(at: path) == .none)
        try await document.close()
    }

    // MARK: Files of others

    @Test func protectKeepsFilesOfOthers() async throws {
        try await make(nil).close()
        let layout = DocumentPackageLayout(path: path)
        let files = [
            "letter.txt", "folder/deep/letter.txt", "StoreContent/letter.txt",
            "StoreContent/.persistentStore_SUPPORT/letter.txt", "AdditionalContent/letter.txt",
            "StoreContent/.persistentStore_SUPPORT/_EXTERNAL_DATA/letter.txt",
            "Versions/letter.txt", "me.keybag",
        ].map { FileSystem.path(path, $0) }
        for file in files {
            try FileSystem.makeFolder(FileSystem.folder(of: file), withIntermediates: true)
            try FileSystem.writeNewFile(Data(file.utf8), at: file)
        }
        func requireFiles(sourceLocation: SourceLocation = #_sourceLocation) throws {
            for file in files {
                #expect(
                    try FileSystem.contents(of: file) == Data(file.utf8),
                    sourceLocation: sourceLocation)
            }
        }
        try DocumentPackage.setFileProtection(.complete, ofDocumentAt: path, domain: domain)
        try requireFiles()
        try DocumentPackage.rotateKeys(ofDocumentAt: path)
        try requireFiles()
        let other = folder.path("Other.quire")
        try await ManagedDocument.make(at: other)
        let package = try DocumentPackage.open(at: other, readOnly: true)
        try package.writeCopy(to: path, replacing: true)
        try package.close()
        try requireFiles()
        let foreign = try layout.foreignFiles()
        #expect(foreign.count == 8)
        #expect(try await ManagedDocument.titles(at: path) == ["first"])
    }

    @Test func protectRefusesWhatItCannotKeep() async throws {
        try await make(nil).close()
        try FileSystem.makeSymbolicLink(FileSystem.path(path, "link"), to: "/etc/hosts")
        let error = failure {
            try DocumentPackage.setFileProtection(.complete, ofDocumentAt: path, domain: domain)
        }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains("a symbolic link") == true)
        #expect(try DocumentPackage.fileProtection(at: path) == .none)
    }

    // MARK: Symbolic links

    /// A symbolic link to the document, in another folder.
    private func makeLink() throws -> String {
        try FileSystem.makeFolder(folder.path("links"))
        let link = folder.path("links/Link.quire")
        try FileSystem.makeSymbolicLink(link, to: "../Notes.quire")
        return link
    }

    private func requireLink(
        _ path: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let found = try FileSystem.informationWithoutFollowing(at: path)
        #expect(found?.kind == .symbolicLink, sourceLocation: sourceLocation)
        let names = try FileSystem.names(in: FileSystem.folder(of: path))
        #expect(names == [FileSystem.name(of: path)], sourceLocation: sourceLocation)
    }

    @Test func protectThroughLinkSealsTheDocument() async throws {
        try await make(nil).close()
        let link = try makeLink()
        try DocumentPackage.setFileProtection(.complete, ofDocumentAt: link, domain: domain)
        try requireLink(link)
        #expect(try DocumentPackage.fileProtection(at: path) == .complete)
        try requireNoCanary()
        let identifier = try DocumentPackage.protectionDomain(at: path)?.identifier
        try DocumentPackage.rotateKeys(ofDocumentAt: link)
        try requireLink(link)
        #expect(try DocumentPackage.protectionDomain(at: path)?.identifier != identifier)
        try DocumentPackage.setFileProtection(.none, ofDocumentAt: link)
        try requireLink(link)
        #expect(try DocumentPackage.fileProtection(at: path) == .none)
        let document = ManagedDocument(path: path)
        try await document.open()
        try requireWhole(document)
        try await document.close()
    }

    @Test func eraseThroughLinkRemovesTheDocument() async throws {
        try await make(.complete).close()
        let link = try makeLink()
        try DocumentPackage.erase(documentAt: link)
        #expect(!FileSystem.exists(path))
        try requireLink(link)
    }

    @Test func replacingThroughLinkReplacesItsTarget() async throws {
        try await make(nil).close()
        let link = try makeLink()
        let other = folder.path("Other.quire")
        try await ManagedDocument.make(at: other, titles: ["copied"])
        let package = try DocumentPackage.open(at: other, readOnly: true)
        try package.writeCopy(to: link, replacing: true)
        try package.close()
        try requireLink(link)
        #expect(try await ManagedDocument.titles(at: path) == ["copied"])
        let document = ManagedDocument(path: other)
        try await document.open()
        try document.addNote("saved as")
        try await document.save(as: URL(fileURLWithPath: link), replacing: true)
        try document.addNote("saved later")
        try await document.close()
        try requireLink(link)
        let titles = try await ManagedDocument.titles(at: path)
        #expect(Set(titles) == ["copied", "saved as", "saved later"])
    }

    @Test func revertThroughLinkReplacesTheContent() async throws {
        try await make(nil).close()
        let link = try makeLink()
        let other = folder.path("Other.quire")
        try await ManagedDocument.make(at: other, titles: ["other"])
        let document = ManagedDocument(path: link)
        try await document.open()
        try await document.revert(to: URL(fileURLWithPath: other))
        try await document.close()
        try requireLink(link)
        #expect(try await ManagedDocument.titles(at: path) == ["other"])
    }

    @Test func copiesAreMadeInFoldersThatAreLinks() async throws {
        try await make(nil).close()
        try FileSystem.makeFolder(folder.path("real"))
        try FileSystem.makeSymbolicLink(folder.path("linked"), to: "real")
        let package = try DocumentPackage.open(at: path, readOnly: true)
        try package.writeCopy(to: folder.path("linked/Copy.quire"))
        try package.export(to: folder.path("linked/Archive.zip"))
        try package.close()
        _ = try DocumentPackage.recover(path, to: folder.path("linked/Recovered.quire"))
        try DocumentPackage.extract(
            folder.path("linked/Archive.zip"), to: folder.path("linked/Extracted.quire"))
        for name in ["Copy", "Recovered", "Extracted"] {
            let document = ManagedDocument(path: folder.path("real/\(name).quire"))
            try await document.open()
            try requireWhole(document)
            try await document.close()
        }
    }

    @Test func exportThroughLinkReplacesItsTarget() async throws {
        try await make(nil).close()
        try FileSystem.makeFolder(folder.path("links"))
        let link = folder.path("links/Archive.zip")
        try FileSystem.makeSymbolicLink(link, to: "../Real.zip")
        try FileSystem.writeNewFile(Data("old".utf8), at: folder.path("Real.zip"))
        let package = try DocumentPackage.open(at: path, readOnly: true)
        try package.export(to: link, replacing: true)
        try package.close()
        try requireLink(link)
        #expect(try !DocumentPackage.manifest(ofArchive: folder.path("Real.zip")).entries.isEmpty)
    }

    // MARK: Attacks

    @Test func filesThatWereExchangedOrChangedAreErrors() async throws {
        try await make(.complete).close()
        let external = DocumentPackageLayout(path: path).externalData
        let name = try #require(try FileSystem.names(in: external).first)
        let file = FileSystem.path(external, name)
        let whole = try Data(contentsOf: URL(fileURLWithPath: file))
        let content =
            DocumentPackageLayout(path: path).additionalContent(generation: 1)
            + "/folder/attachment"
        let attachment = try Data(contentsOf: URL(fileURLWithPath: content))
        var flipped = whole
        flipped[flipped.count / 2] ^= 4
        // Another file of the document is told apart by the digest that the store has.
        for bytes in [flipped, whole.dropLast(1), Data(Self.picture), Data()] {
            try bytes.write(to: URL(fileURLWithPath: file))
            let document = ManagedDocument(path: path)
            try await document.open(readOnly: true)
            let note = try #require(
                try document.managedObjectContext.fetch(FetchRequest("Note")).first)
            #expect(
                failure { _ = try note.externalData(forKey: "picture")?.data() }?.code
                    == .invalidFormat)
            try await document.close()
        }
        try attachment.write(to: URL(fileURLWithPath: file))
        let package = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try !StoreCheck.run(package.store).problems.isEmpty)
        try package.close()
    }

    @Test func aDocumentWithoutItsKeybagOrWithAnothersIsAnError() async throws {
        try await make(.complete).close()
        let keybag = DocumentPackageLayout(path: path).keybag
        let own = try Data(contentsOf: URL(fileURLWithPath: keybag))
        try FileSystem.removeFile(keybag)
        let error = failure { _ = try DocumentPackage.open(at: path, readOnly: true) }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains("its keybag “\(keybag)” is missing") == true)
        var flipped = own
        flipped[own.count - 1] ^= 1
        try flipped.write(to: URL(fileURLWithPath: keybag))
        #expect(failure { _ = try DocumentPackage.open(at: path, readOnly: true) } != nil)
        let other = folder.path("Other.quire")
        let document = ManagedDocument(path: other)
        document.fileProtection = .complete
        document.protectionDomain = domain
        try await document.create(model: notesModel)
        try await document.close()
        try Data(contentsOf: URL(fileURLWithPath: DocumentPackageLayout(path: other).keybag))
            .write(to: URL(fileURLWithPath: keybag))
        #expect(
            failure { _ = try DocumentPackage.open(at: path, readOnly: true) }?.code
                == .invalidFormat)
    }
}
