import Foundation
import Quire
import Testing

/// Relationships that several contexts change.
@MainActor @Suite struct SharedSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Team") {
            Attribute("name", .string)
            ToMany("players", "Player", inverse: "team")
            ToMany("ranking", "Player", inverse: "rankedIn").ordered()
            ToMany("events", "Event", inverse: "teams")
            ToOne("captain", "Player", inverse: "captainOf")
        }
        Entity("Player") {
            Attribute("name", .string)
            ToOne("team", "Team", inverse: "players")
            ToOne("rankedIn", "Team", inverse: "ranking")
            ToOne("captainOf", "Team", inverse: "captain")
        }
        Entity("Event") {
            Attribute("name", .string)
            ToMany("teams", "Team", inverse: "events")
        }
    }

    /// Teams “A”, “B”, “C” with the players “a”, “b”, “c”, who are also ranked and captains, and events “1” and “2” of all.
    private func fill(_ context: ManagedObjectContext) throws {
        let events = try ["1", "2"].map { try context.insertNamed("Event", $0) }
        for name in ["A", "B", "C"] {
            let player = try context.insertNamed("Player", name.lowercased())
            _ = try context.insertNamed(
                "Team", name,
                [
                    "players": Set([player]), "ranking": [player], "captain": player,
                    "events": Set(events),
                ])
        }
        try context.save()
    }

    /// What the relationships of all objects are, from both sides; the sides must agree.
    private func state(_ context: ManagedObjectContext) throws -> [String: String] {
        var state: [String: String] = [:]
        var back: [String: String] = [:]
        let teams = try context.fetch(FetchRequest<ManagedObject>("Team"))
        for team in teams {
            let name = team["name"] as? String ?? "-"
            for key in ["players", "ranking", "events"] {
                state[name + key] = team.memberNames(key)
            }
            state[name + "captain"] = team.destinationName("captain") ?? ""
        }
        for player in try context.fetch(FetchRequest<ManagedObject>("Player")) {
            let name = player["name"] as? String ?? "-"
            for (key, inverse) in [
                ("team", "players"), ("rankedIn", "ranking"), ("captainOf", "captain"),
            ] {
                if let team = player.destinationName(key) {
                    back[team + inverse, default: ""] += name
                }
            }
        }
        for event in try context.fetch(FetchRequest<ManagedObject>("Event")) {
            for team in event.objects("teams") {
                back[(team["name"] as? String ?? "-") + "events", default: ""] +=
                    event["name"] as? String ?? "-"
            }
        }
        for (key, names) in state {
            #expect(String(names.sorted()) == String((back[key] ?? "").sorted()), "\(key)")
        }
        return state
    }

    /// A player changes teams here, and to a third team there. Whatever the policy decides, the player is in one team, on
    /// both sides, in both contexts and in the store.
    /// Source: the-blue-alliance-ios #258 (NSMergeConflict); Apple documentation, NSMergePolicy.
    @Test(
        arguments: SituationStore.allCases,
        [
            MergePolicy.Kind.mergeByPropertyObjectTrump, .mergeByPropertyStoreTrump, .overwrite,
            .rollback, .error,
        ])
    func aPlayerMovedInTwoContextsIsInOneTeam(
        store: SituationStore, policy: MergePolicy.Kind
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            context.mergePolicy = MergePolicy(merge: policy)
            try fill(context)
            _ = try state(context)  // All is read.
            let player = try context.findNamed("Player", "a")
            let b = try context.findNamed("Team", "B")
            b.add(player, to: "players")
            player["rankedIn"] = b
            b["captain"] = player
            try await container.performBackgroundTask { other in
                let player = try other.findNamed("Player", "a")
                let c = try other.findNamed("Team", "C")
                player["team"] = c
                c.insert(player, into: "ranking", at: 0)
                player["captainOf"] = c
                try other.save()
            }
            var isMine = policy == .mergeByPropertyObjectTrump || policy == .overwrite
            if policy == .error {
                let error = #expect(throws: QuireError.self) { try context.save() }
                #expect(error?.code == .mergeConflict)
                #expect(player.destinationName("team") == "B")
                context.mergePolicy = .mergeByPropertyObjectTrump
                isMine = true
            }
            try context.save()
            context.refreshAllObjects()
            let here = try state(context)
            let winner = isMine ? "B" : "C"
            #expect(here["Aplayers"] == "" && here["Aranking"] == "" && here["Acaptain"] == "")
            #expect(here[winner + "players"] == (isMine ? "ab" : "ac"))
            #expect(here[winner + "ranking"]?.contains("a") == true)
            #expect(here[winner + "captain"] == "a")
            let rest = isMine ? "C" : "B"
            #expect(here[rest + "players"] == rest.lowercased())
            #expect(here[rest + "ranking"] == rest.lowercased())
            context.reset()
            #expect(try state(context) == here)
        }
    }

    /// Two contexts add and remove events of the same teams at the same time: no conflict, and nothing is lost.
    /// Source: Seam #23 “Many-to-many relations” (NSMergeConflict); encrypted-core-data #20.
    @Test(arguments: SituationStore.allCases)
    func membersAddedInTwoContextsAreAllThere(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try fill(context)
            let before = try state(context)
            #expect(before["Aevents"] == "12")
            let a = try context.findNamed("Team", "A")
            a.add(try context.insertNamed("Event", "3"), to: "events")
            a.remove(try context.findNamed("Event", "1"), from: "events")
            try context.insertNamed("Player", "x")["team"] = a
            try await container.performBackgroundTask { other in
                let a = try other.findNamed("Team", "A")
                let new = try other.insertNamed("Event", "4", ["teams": Set([a])])
                a.remove(try other.findNamed("Event", "2"), from: "events")
                a.remove(try other.findNamed("Event", "1"), from: "events")
                try other.findNamed("Team", "B").add(new, to: "events")
                a.add(try other.insertNamed("Player", "y"), to: "players")
                try other.save()
            }
            try context.save()
            context.refreshAllObjects()
            let after = try state(context)
            #expect(
                after["Aevents"] == "34" && after["Bevents"] == "124" && after["Cevents"] == "12")
            #expect(after["Aplayers"] == "axy")
        }
    }

    /// Children are inserted in the background; the main context has the owner, whose relationship was read or not, and
    /// has unsaved changes of its own in it. It merges by itself, or by the notification.
    /// Source: Core Data Programming Guide “Troubleshooting Core Data” (merge errors); MagicalRecord #266 “Need some help
    /// with relationships”.
    @Test(arguments: SituationStore.allCases, [false, true])
    func childrenInsertedInTheBackgroundJoinUnsavedOnes(
        store: SituationStore, isRead: Bool
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            try fill(context)
            context.reset()
            let a = try context.findNamed("Team", "A")
            if isRead {
                #expect(a.memberNames("players") == "a" && a.memberNames("ranking") == "a")
            }
            let mine = try context.insertNamed("Player", "m", ["team": a])
            a.insert(mine, into: "ranking", at: 0)
            var saves = container.saves.makeAsyncIterator()
            try await container.performBackgroundTask { other in
                let a = try other.findNamed("Team", "A")
                for name in ["x", "y"] {
                    a.add(try other.insertNamed("Player", name, ["team": a]), to: "ranking")
                }
                other.delete(try other.findNamed("Player", "a"))
                try other.save()
            }
            context.mergeChanges(from: try #require(await saves.next()))
            #expect(a.memberNames("players") == "mxy")
            #expect(a.memberNames("ranking") == "mxy")
            #expect(a.object("captain") == nil)
            try context.save()
            context.reset()
            let again = try context.findNamed("Team", "A")
            #expect(again.memberNames("players") == "mxy" && again.memberNames("ranking") == "mxy")
        }
    }
}
