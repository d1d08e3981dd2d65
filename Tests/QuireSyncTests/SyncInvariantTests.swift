import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireSync

/// Rows are a function of all records, whoever has made a change and in whatever order rounds come; and every row has a record.
@MainActor @Suite struct SyncInvariantTests {
    private static let model = ManagedObjectModel {
        Entity("Item") {
            Attribute("sku", .string)
            Attribute("code", .string)
            Attribute("name", .string)
            ToMany("labels", "Label", inverse: "items")
            ToMany("parts", "Part", inverse: "item")
            Unique("sku")
            Unique("code")
        }
        Entity("Label") {
            Attribute("name", .string)
            ToMany("items", "Item", inverse: "labels")
            Unique("name")
        }
        Entity("Part") {
            Attribute("name", .string)
            ToOne("item", "Item", inverse: "parts").required()
        }
        Entity("Category") {
            Attribute("code", .string)
            Attribute("name", .string)
        }.userInfo(["syncIdentity": .string("code")])
        Entity("Picture") {
            Attribute("name", .string)
            Attribute("data", .binary).externalStorage()
            Unique("name")
        }
        Entity("Person") {
            Attribute("name", .string)
            ToOne("spouse", "Person", inverse: "spouse")
        }
    }

    private func sites(_ count: Int, segmentsBeforeSnapshot: [Int] = [64]) async throws -> SyncSites
    {
        let sites = try SyncSites(
            count, model: Self.model, segmentsBeforeSnapshot: segmentsBeforeSnapshot)
        try await sites.begin()
        return sites
    }

    private func names(_ entity: String = "Item", on site: SyncSite) throws -> [String] {
        site.context.refreshAllObjects()
        return try site.objects(entity).compactMap { $0["name", as: String.self] }.sorted()
    }

    private func object(_ name: String, as entity: String = "Item", on site: SyncSite) throws
        -> ManagedObject
    {
        site.context.refreshAllObjects()
        return try #require(
            try site.objects(entity).first { $0["name", as: String.self] == name })
    }

    @discardableResult
    private func insert(
        _ values: [String: String], as entity: String = "Item", in item: ManagedObject? = nil,
        on site: SyncSite
    ) throws -> ManagedObject {
        let object = try site.context.insertObject(entityName: entity)
        for (key, value) in values { object[key] = value }
        if let item { object["item"] = item }
        try site.context.save()
        return object
    }

    // MARK: - Unique values

    enum GivingUp: CaseIterable { case another, null, batch, toAThird, deletion }

    @Test(arguments: GivingUp.allCases)
    func whatAUniqueValueHidAppearsEverywhereWhenItIsGivenUp(how: GivingUp) async throws {
        let sites = try await sites(3)
        let site = sites.sites[0]
        try insert(["sku": "same", "name": "first"], on: site)
        try insert(["sku": "same", "name": "second"], on: sites.sites[1])
        try await sites.exchange()
        for site in sites.sites { #expect(try names(on: site) == ["first"]) }

        let first = try object("first", on: site)
        var expected = ["first", "second"]
        switch how {
        case .another: first["sku"] = "other"
        case .null: first["sku"] = nil
        case .batch:
            try site.context.execute(
                BatchUpdateRequest(
                    entityName: "Item", propertiesToUpdate: ["sku": "other"]))
        case .toAThird:
            first["sku"] = "other"
            // The one that was hidden is older.
            try insert(["sku": "same", "name": "third"], on: site)
        case .deletion:
            // The row stood for both.
            site.context.delete(first)
            expected = []
        }
        try site.context.save()
        try await sites.exchange()
        for site in sites.sites { #expect(try names(on: site) == expected) }
        try await sites.expectSame()
        try sites.close()
    }

    @Test func whatHidAnotherByASecondValueIsHiddenInTurn() async throws {
        let sites = try await sites(3)
        try insert(["sku": "1", "name": "oldest"], on: sites.sites[0])
        try insert(["sku": "1", "code": "a", "name": "middle"], on: sites.sites[1])
        try insert(["code": "a", "name": "youngest"], on: sites.sites[2])
        try await sites.exchange()
        for site in sites.sites { #expect(try names(on: site) == ["oldest", "youngest"]) }
        // The middle one appears, and takes its other value from the youngest.
        try object("oldest", on: sites.sites[0])["sku"] = "2"
        try sites.sites[0].context.save()
        try await sites.exchange()
        for site in sites.sites { #expect(try names(on: site) == ["middle", "oldest"]) }
        try await sites.expectSame()
        try sites.close()
    }

    @Test func whatAHiddenObjectWasLinkedWithIsLinkedWithTheOneThatIsShown() async throws {
        let sites = try await sites(2)
        for (index, name) in ["first", "second"].enumerated() {
            let site = sites.sites[index]
            let item = try insert(["sku": "same", "name": name], on: site)
            try insert(["name": "of \(name)"], as: "Part", in: item, on: site)
            let label = try insert(["name": "shared"], as: "Label", on: site)
            let own = try insert(["name": "own of \(name)"], as: "Label", on: site)
            try item.mutableSetValue(forKey: "labels").add(label)
            try item.mutableSetValue(forKey: "labels").add(own)
            try site.context.save()
        }
        try await sites.exchange()
        for site in sites.sites {
            let item = try object("first", on: site)
            let labels = item["labels", as: Set<ManagedObject>.self]
            #expect(
                labels.compactMap { $0["name", as: String.self] }.sorted()
                    == ["own of first", "own of second", "shared"])
            #expect(item["parts", as: Set<ManagedObject>.self].count == 2)
        }
        // What the hidden one brought can be taken away.
        let site = sites.sites[0]
        let item = try object("first", on: site)
        try item.mutableSetValue(forKey: "labels").remove(
            object("own of second", as: "Label", on: site))
        try site.context.save()
        try await sites.exchange()
        for site in sites.sites {
            let labels = try object("first", on: site)[
                "labels", as: Set<ManagedObject>.self]
            #expect(
                labels.compactMap { $0["name", as: String.self] }.sorted()
                    == ["own of first", "shared"])
        }
        try await sites.expectSame()
        try sites.close()
    }

    // MARK: - Hidden objects

    enum Settling: CaseIterable { case shown, renamed, dropped }

    @Test(arguments: Settling.allCases, [0, 1])
    func aHiddenObjectIsListedUntilItIsSettled(how: Settling, machine: Int) async throws {
        let sites = try await sites(2)
        for (index, name) in ["first", "second"].enumerated() {
            try insert(["sku": "same", "name": name], on: sites.sites[index])
        }
        try await sites.exchange()
        for site in sites.sites {
            let conflict = try #require(try await site.sync.conflicts().first)
            #expect(conflict.kind == .hidden)
            #expect((conflict.entityName, conflict.propertyName) == ("Item", "sku"))
            #expect(try conflict.hiddenBy == object("first", on: site).objectID)
            #expect(conflict.values == ["sku": .string("same"), "name": .string("second")])
        }

        let site = sites.sites[machine]
        let conflict = try #require(try await site.sync.conflicts().first)
        let expected: (shown: [String], hidden: [AttributeValue?])
        switch how {
        case .shown:
            try await site.sync.choose(conflict)
            expected = (["second"], [.string("first")])
        case .renamed:
            await #expect(throws: QuireError.self) {
                try await site.sync.show(conflict, setting: ["price": .integer(1)])
            }
            try await site.sync.show(conflict, setting: ["sku": .string("other")])
            expected = (["first", "second"], [])
        case .dropped:
            try await site.sync.dismiss(conflict)
            expected = (["first"], [])
        }
        #expect(try names(on: site) == expected.shown)
        try await sites.exchange()
        for site in sites.sites {
            #expect(try names(on: site) == expected.shown)
            #expect(
                try await site.sync.conflicts().map { $0.values["name"] } == expected.hidden)
        }
        try await sites.expectSame()
        try sites.close()
    }

    @Test func anObjectThatIsHiddenForWhatItRequiresIsListedAndBringsItBack() async throws {
        let sites = try await sites(2)
        let (site, other) = (sites.sites[0], sites.sites[1])
        let item = try insert(["name": "item"], on: site)
        try await sites.exchange()
        site.context.delete(item)
        try site.context.save()
        try insert(["name": "part"], as: "Part", in: object("item", on: other), on: other)
        try await sites.exchange()
        for site in sites.sites {
            #expect(try names("Part", on: site) == [])
            let conflict = try #require(
                try await site.sync.conflicts().first { $0.kind == .hidden })
            #expect((conflict.entityName, conflict.propertyName) == ("Part", "item"))
            #expect(conflict.hiddenBy == nil)
            #expect(conflict.values == ["name": .string("part")])
        }
        let conflicts = try await site.sync.conflicts()
        try await site.sync.choose(#require(conflicts.first { $0.kind == .hidden }))
        try await sites.exchange()
        for site in sites.sites {
            #expect(try names(on: site) == ["item"])
            let part = try object("part", as: "Part", on: site)
            let item = try #require(part["item", as: ManagedObject.self])
            #expect(item["name", as: String.self] == "item")
            #expect(try await site.sync.conflicts().allSatisfy { $0.kind != .hidden })
        }
        try await sites.expectSame()
        try sites.close()
    }

    @Test func undoBringsBackWhatHiddenObjectsRequire() async throws {
        let sites = try await sites(2)
        let (site, other) = (sites.sites[0], sites.sites[1])
        site.context.undoManager = UndoManager()
        let item = try insert(["name": "item"], on: site)
        try await sites.exchange()
        site.context.delete(item)
        try site.context.save()
        try insert(["name": "part"], as: "Part", in: object("item", on: other), on: other)
        try await sites.exchange()
        site.context.undo()
        try site.context.save()
        try await sites.exchange()
        for site in sites.sites {
            #expect(try names(on: site) == ["item"])
            #expect(try names("Part", on: site) == ["part"])
            #expect(try await site.sync.conflicts().allSatisfy { $0.kind != .hidden })
        }
        try await sites.expectSame()
        try sites.close()
    }

    @Test func objectsWithOneIdentityAreOneAlsoIfOneWasNotSavedYet() async throws {
        let sites = try await sites(2)
        try insert(["code": "x", "name": "first"], as: "Category", on: sites.sites[0])
        let category = try sites.sites[1].context.insertObject(entityName: "Category")
        (category["code"], category["name"]) = ("x", "second")
        try await sites.exchange()
        try sites.sites[1].context.save()
        try await sites.exchange()
        for site in sites.sites { #expect(try names("Category", on: site) == ["first"]) }
        try await sites.expectSame()
        try sites.close()
    }

    /// Also if its machine learns of the other value in the round that was to send it.
    @Test(arguments: [0, 1], ["value", "deletion", "unique value"])
    func aLargeValueThatLosesCanBeChosen(first: Int, loss: String) async throws {
        let sites = try await sites(2)
        let (site, other) = (sites.sites[0], sites.sites[1])
        // What it changes is the earlier change, whichever round is first.
        site.clockOffset = -1000
        try site.reopen()
        let lost = Data((0..<200_001).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let picture = try insert(["name": "0"], as: "Picture", on: site)
        try await sites.exchange()
        let same = try #require(try other.objects("Picture").first)
        switch loss {
        case "value":
            picture["data"] = lost
            same["data"] = Data(repeating: 2, count: 200_002)
        case "deletion":
            picture["data"] = lost
            other.context.delete(same)
        default:
            try site.context.insertObject(entityName: "Picture")["name"] = "1"
            let second = try other.context.insertObject(entityName: "Picture")
            (second["name"], second["data"]) = ("1", lost)
        }
        try site.context.save()
        try other.context.save()
        for site in first == 0 ? [site, other] : [other, site] {
            try await site.sync.synchronize()
            sites.folder.carryAll()
        }
        try await sites.exchange()
        try await chooseLargeValue(lost, on: other, sites)
        try sites.close()
    }

    @Test func aLargeValueThatIsSavedDuringTheRoundAndLosesCanBeChosen() async throws {
        let sites = try await sites(2)
        let (site, other) = (sites.sites[0], sites.sites[1])
        // Its change is the later one.
        other.clockOffset = 1000
        try other.reopen()
        let picture = try insert([:], as: "Picture", on: site)
        try await sites.exchange()
        try #require(try other.objects("Picture").first)["data"] =
            Data(repeating: 2, count: 200_002)
        try other.context.save()
        try await other.sync.synchronize()
        sites.folder.carryAll()
        let lost = Data(repeating: 1, count: 200_001)
        let round = try site.container(sites) { call in
            guard case .listing(let folder) = call, folder == SyncSegment.folder,
                picture["data", as: Data.self] == nil
            else { return }
            picture["data"] = lost
            try site.context.save()
        }
        try await round.synchronize()
        sites.folder.carryAll()
        try await sites.exchange()
        try await chooseLargeValue(lost, on: other, sites)
        try sites.close()
    }

    /// Chooses a value that has lost, or shows the hidden object that has it: all machines get its bytes.
    private func chooseLargeValue(
        _ lost: Data, on site: SyncSite, _ sites: SyncSites
    ) async throws {
        let conflict = try await site.sync.conflicts().first {
            $0.kind == .hidden || $0.lostByteCount == Int64(lost.count)
        }
        try await site.sync.choose(#require(conflict))
        try await sites.exchange()
        for site in sites.sites {
            site.context.refreshAllObjects()
            let data = try site.objects("Picture").map { $0["data", as: Data.self] }
            #expect(data.contains(lost))
            #expect(try await site.sync.status()?.missingFileCount == 0)
        }
        try await sites.expectSame()
    }

    /// A file that is named by what was replaced before it was sent comes from nowhere.
    @Test func nothingWaitsForALargeValueThatWasReplaced() async throws {
        let sites = try await sites(2)
        let (site, other) = (sites.sites[0], sites.sites[1])
        let picture = try insert([:], as: "Picture", on: site)
        try await sites.exchange()
        picture["data"] = Data(repeating: 1, count: 200_001)
        try site.context.save()
        let files = sites.folder.files(on: other.machine)
        try await site.sync.synchronize()
        sites.folder.carryAll()
        for path in sites.folder.files(on: other.machine).keys
        where path.hasPrefix("blob/") && files[path] == nil {
            sites.folder.damage(path, on: other.machine, nil)
        }
        try await other.sync.synchronize()
        #expect(try await other.sync.status()?.missingFileCount == 1)
        picture["data"] = Data(repeating: 2, count: 10)
        try site.context.save()
        try await site.sync.synchronize()
        let log = sites.folder.files(on: site.machine).filter { $0.key.hasPrefix("log/") }
        for (path, data) in log { sites.folder.damage(path, on: other.machine, data) }
        try await other.sync.synchronize()
        #expect(try await other.sync.status()?.missingFileCount == 0)
        try await sites.expectSame()
        try sites.close()
    }

    @Test func conflictsOfLargeValuesSayHowLargeTheyAre() async throws {
        let sites = try await sites(2)
        let picture = try insert([:], as: "Picture", on: sites.sites[0])
        try await sites.exchange()
        picture["data"] = Data(repeating: 1, count: 200_001)
        try sites.sites[0].context.save()
        let other = try #require(try sites.sites[1].objects("Picture").first)
        other["data"] = Data(repeating: 2, count: 200_002)
        try sites.sites[1].context.save()
        try await sites.exchange()
        let conflicts =
            try await sites.sites[0].sync.conflicts()
            + sites.sites[1].sync.conflicts()
        #expect(!conflicts.isEmpty)
        #expect(conflicts.allSatisfy { $0.lostByteCount == 200_001 && $0.keptByteCount == 200_002 })
        try sites.close()
    }

    // MARK: - Replaced objects

    /// The history may say what has been changed, or all rows have to be gone through.
    @Test(arguments: [false, true], [false, true])
    func anObjectThatReplacesAnotherIsSent(isRenamed: Bool, scans: Bool) async throws {
        let sites = try await sites(2)
        let (site, other) = (sites.sites[0], sites.sites[1])
        let old = try insert(["sku": "x", "name": "old"], on: site)
        try await sites.exchange()

        if isRenamed {
            old["sku"] = "t"
            try site.context.save()
            try insert(["sku": "x", "name": "new"], on: site)
        }
        site.context.delete(old)
        try site.context.save()
        if !isRenamed { try insert(["sku": "x", "name": "new"], on: site) }
        if scans { try await site.sync.repair() }
        try await sites.exchange()
        for site in sites.sites { #expect(try names(on: site) == ["new"]) }

        // Nor is it in the way of others.
        try insert(["sku": "y", "name": "another"], on: other)
        try object("new", on: other)["sku"] = "z"
        try other.context.save()
        try insert(["sku": "x", "name": "newest"], on: other)
        try await sites.exchange()
        for site in sites.sites { #expect(try names(on: site) == ["another", "new", "newest"]) }
        try await sites.expectSame()
        try sites.close()
    }

    // MARK: - History

    @Test func whatWasSavedInADocumentThatWasEmptyIsSentAfterAPurge() async throws {
        let sites = try await sites(2)
        let site = sites.sites[0]
        try insert(["sku": "1", "name": "first"], on: site)
        let last = try #require(try site.store.lastHistoryTransactionNumber())
        try site.context.execute(
            .deleteHistory(
                before: PersistentHistoryToken(
                    transactionNumbers: [site.store.identity.uuid: last + 1])))
        try insert(["sku": "2", "name": "second"], on: site)
        try await sites.exchange()
        #expect(try names(on: sites.sites[1]) == ["first", "second"])
        try await sites.expectSame()
        try sites.close()
    }

    // MARK: - One-to-one relationships

    @Test func aRelationshipToAnotherOfTheSameKindHasTwoEnds() async throws {
        let sites = try await sites(3)
        for name in ["a", "b"] { try insert(["name": name], as: "Person", on: sites.sites[0]) }
        try await sites.exchange()
        func marry(_ one: String, _ other: String, on site: SyncSite) throws {
            let partner = try object(other, as: "Person", on: site)
            try object(one, as: "Person", on: site)["spouse"] = partner
            try site.context.save()
        }
        try marry("b", "a", on: sites.sites[0])
        try marry("b", "b", on: sites.sites[1])
        try marry("a", "a", on: sites.sites[2])
        for site in sites.sites { try await site.sync.synchronize() }
        try marry("b", "a", on: sites.sites[1])
        try await sites.exchange()
        try await sites.expectSame()

        for name in ["a", "b"] {
            let site = sites.sites[0]
            site.context.delete(try object(name, as: "Person", on: site))
            try site.context.save()
            try await sites.exchange()
            try await sites.expectSame()
        }
        for site in sites.sites { #expect(try names("Person", on: site) == []) }
        try sites.close()
    }

    // MARK: - Copies

    /// Also of one that has joined only.
    @Test(arguments: [1, 4, 64], [false, true])
    func copiesOfAReplicaThatAreBothEditedLoseNothing(
        segmentsBeforeSnapshot: Int, hasSent: Bool
    ) async throws {
        var sites = try SyncSites(
            2, model: Self.model, segmentsBeforeSnapshot: [segmentsBeforeSnapshot])
        try await sites.sites[0].sync.create(named: "Library")
        try insert(["sku": "0", "name": "common"], on: sites.sites[0])
        try await sites.sites[0].sync.synchronize()
        sites.folder.carryAll()
        try await sites.sites[1].sync.join()
        if hasSent { try await sites.exchange() }
        try sites.clone(sites.sites[1])
        sites.folder.carryAll()
        var expected: Set<String> = ["common"]
        for (machine, count) in [(1, 30), (2, 5)] {
            for number in 0..<count {
                let name = "\(machine)-\(number)"
                try insert(["sku": name, "name": name], on: sites.sites[machine])
                try await sites.sites[machine].sync.synchronize()
                expected.insert(name)
            }
        }
        try await sites.exchange()
        for site in sites.sites { #expect(try Set(names(on: site)) == expected) }
        var peers: Set<SyncIdentifier> = []
        for site in sites.sites {
            if let peer = try await site.sync.status()?.peer { peers.insert(peer) }
        }
        #expect(peers.count == 3)
        try await sites.expectSame()
        try sites.close()
    }

    /// As on a disk that two machines have in turn: the file of each has the content of the other.
    @Test func aStoreThatGoesToAndFroHasOneIdentifierForEachPlace() async throws {
        let sites = try await sites(2)
        let site = sites.sites[0]
        let (first, second) = (site.path, site.path + ".other")
        var peers: [SyncIdentifier] = []
        for number in 0..<6 {
            try insert(["sku": "\(number)", "name": "\(number)"], on: site)
            try await sites.exchange()
            if let peer = try await site.sync.status()?.peer { peers.append(peer) }
            try site.exchangeFiles(first, second)
        }
        #expect(Set(peers).count == 2)
        #expect(peers == [0, 1, 0, 1, 0, 1].map { peers[$0] })
        #expect(try names(on: sites.sites[1]) == (0..<6).map(String.init))
        try await sites.expectSame()
        try sites.close()
    }

    /// As by `cp backup document`. The other machine has put a snapshot in the place of what was sent since.
    ///
    /// - Parameters:
    ///   - hasFolder: Whether the shared folder's copy is set back, too, as with a whole machine.
    ///   - isAlone: Whether the other machine has only merged. Then its snapshot seems to have nothing new.
    @Test(arguments: [false, true], [false, true])
    func aReplicaWhoseContentIsSetBackLosesNothing(hasFolder: Bool, isAlone: Bool) async throws {
        let sites = try await sites(2, segmentsBeforeSnapshot: [64, 0])
        let (site, other) = (sites.sites[0], sites.sites[1])
        try insert(["sku": "0", "name": "before"], on: site)
        try await sites.exchange()
        let backup = sites.temporary.path("backup")
        try site.copy(to: backup)
        let files = sites.folder.files(on: site.machine)
        try insert(["sku": "1", "name": "lost"], on: site)
        try await sites.exchange()
        if !isAlone { try insert(["sku": "2", "name": "other"], on: other) }
        try await sites.exchange()

        try site.restore(backup, inPlace: true)
        if hasFolder { sites.folder.setFiles(files, on: site.machine) }
        try insert(["sku": "3", "name": "new"], on: site)
        try await site.sync.synchronize()
        try await sites.exchange()
        for site in sites.sites {
            let names = try names(on: site)
            #expect(names == ["before", "lost", "new"] + (isAlone ? [] : ["other"]))
        }
        try await sites.expectSame()
        try sites.close()
    }

    @Test func aStoreThatIsOpenedAgainStaysTheSameReplica() async throws {
        let sites = try await sites(2)
        let site = sites.sites[0]
        let peer = try await site.sync.status()?.peer
        for number in 0..<3 {
            try insert(["sku": "\(number)", "name": "\(number)"], on: site)
            try await sites.exchange()
            try site.reopen()
        }
        try await sites.exchange()
        #expect(try await site.sync.status()?.peer == peer)
        try sites.close()
    }
}
