import Foundation
import Quire
import Testing

/// Numbers of objects: bounds, required relationships, counting, and what is read for it.
@MainActor @Suite struct CountSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Game") {
            Attribute("name", .string)
            // Nobody, or two to three.
            ToMany("players", "Player", inverse: "game").count(atLeast: 2, atMost: 3)
            // One to three, always.
            ToMany("referees", "Player", inverse: "whistles").required().count(
                atLeast: 1, atMost: 3
            ).ordered()
            ToMany("fans", "Player", inverse: "likes").count(atMost: 4)
        }
        Entity("Player") {
            Attribute("name", .string)
            Attribute("score", .integer32)
            ToOne("game", "Game", inverse: "players")
            ToOne("whistles", "Game", inverse: "referees")
            ToMany("likes", "Game", inverse: "fans")
        }
    }

    private func player(
        _ name: String, _ score: Int = 0, in context: ManagedObjectContext
    ) throws -> ManagedObject {
        try context.insertNamed("Player", name, ["score": score])
    }

    private func failure(_ context: ManagedObjectContext) throws -> String {
        let error = try #require(#expect(throws: QuireError.self) { try context.save() })
        #expect(error.code == .validation)
        let failures = error.failures.isEmpty ? [error] : error.failures
        return failures.map {
            "\($0.subject.property ?? "-") \($0.subject.rule?.rawValue ?? "-")"
        }.sorted().joined(separator: ", ")
    }

    /// A minimum of an optional relationship applies only if it is not empty; a required one may not be empty.
    /// Source: Apple documentation, NSRelationshipDescription, “Cardinality”; geek-answers.imtqy.com 1457212 (a Stack
    /// Overflow question about the minimum count of optional relationships); CoreStore, ToManyUnordered, `minCount`.
    @Test(arguments: SituationStore.allCases)
    func aMinimumOfAnOptionalRelationshipAllowsNobody(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let game = try context.insertNamed("Game", "g")
            #expect(try failure(context) == "referees required")
            game.add(try player("r", in: context), to: "referees")
            try context.save()
            game.add(try player("a", in: context), to: "players")
            #expect(try failure(context) == "players minimumCount")
            (try player("b", in: context))["game"] = game
            try context.save()
            for name in ["c", "d"] { game.add(try player(name, in: context), to: "players") }
            #expect(try failure(context) == "players maximumCount")
            context.delete(try context.findNamed("Player", "d"))
            try context.save()
            game["players"] = nil
            try context.save()
            #expect(try context.foundNames("Player", "game == nil") == "abcr")
        }
    }

    /// Somebody is moved to another game through either side: the game that loses is checked although nobody touched it.
    /// Source: mcohen.me “Core Data validation error” (?p=6584), the changed objects that nobody changed.
    @Test(arguments: SituationStore.allCases, ["to-one", "add", "set", "delete"])
    func theGameThatLosesAPlayerIsChecked(store: SituationStore, way: String) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            for name in ["g", "h"] {
                let game = try context.insertNamed("Game", name)
                game["referees"] = [try player("r" + name, in: context)]
                game["players"] = Set(try ["1", "2"].map { try player(name + $0, in: context) })
            }
            try context.save()
            context.reset()
            let moved = try context.findNamed("Player", "g1")
            let h = try context.findNamed("Game", "h")
            switch way {
            case "to-one": moved["game"] = h
            case "add": h.add(moved, to: "players")
            case "set": h["players"] = Set(h.objects("players") + [moved])
            default: context.delete(moved)
            }
            #expect(try failure(context) == "players minimumCount")
            // Both go, and the game is empty.
            let second = try context.findNamed("Player", "g2")
            if way == "delete" { context.delete(second) } else { second["game"] = nil }
            try context.save()
            context.reset()
            #expect(try context.findNamed("Game", "g").objects("players").isEmpty)
            #expect(
                try context.findNamed("Game", "h").memberNames("players")
                    == (way == "delete" ? "h1h2" : "g1h1h2"))
        }
    }

    /// Two contexts add a fan each to the same game, each within the bounds; together they are too many.
    /// Source: Apple documentation, NSRelationshipDescription.maxCount.
    @Test(arguments: SituationStore.allCases, [false, true])
    func aMaximumIsCheckedAgainAfterAMerge(store: SituationStore, isMerged: Bool) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let game = try context.insertNamed("Game", "g")
            game["referees"] = [try player("r", in: context)]
            game["fans"] = Set(try ["a", "x", "y"].map { try player($0, in: context) })
            try context.save()
            game.add(try player("b", in: context), to: "fans")
            var saves = container.saves.makeAsyncIterator()
            try await container.performBackgroundTask { other in
                let game = try other.findNamed("Game", "g")
                game.add(try other.insertNamed("Player", "c"), to: "fans")
                try other.save()
            }
            if isMerged {
                context.mergeChanges(from: try #require(await saves.next()))
                #expect(game.memberNames("fans") == "abcxy")
                #expect(try failure(context) == "fans maximumCount")
                game.remove(try context.findNamed("Player", "a"), from: "fans")
                try context.save()
                context.reset()
                #expect(try context.findNamed("Game", "g").memberNames("fans") == "bcxy")
            } else {
                // Not known here: adding is not a conflict. The next change of the game says so.
                try context.save()
                context.refreshAllObjects()
                #expect(game.memberNames("fans") == "abcxy")
                game.add(try player("d", in: context), to: "fans")
                #expect(try failure(context) == "fans maximumCount")
            }
        }
    }

    /// A badge shows the number of members without reading them; it counts unsaved ones, and no deleted ones.
    /// Source: fatbobman.com “Count Queries in Core Data: The Master Guide”; Core Data Programming Guide, “Faulting and
    /// Uniquing”.
    @Test(arguments: SituationStore.allCases)
    func countingReadsNoMembers(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let game = try context.insertNamed("Game", "g")
            game["referees"] = [try player("r", in: context)]
            game["players"] = Set(try ["a", "b", "c"].map { try player($0, 1, in: context) })
            try context.save()
            context.reset()
            let again = try context.findNamed("Game", "g")
            let mine = try QueryPredicate(format: "game == %@", again)
            #expect(try context.count(for: FetchRequest("Player", predicate: mine)) == 3)
            #expect(
                try context.foundNames("Game", "players.@count == 3 AND referees.@count == 1")
                    == "g")
            #expect(again.hasFault(forRelationshipNamed: "players"))
            #expect(again.objectIDs(forRelationshipNamed: "players").count == 3)
            let a = try #require(
                again.objects("players").first { $0["name"] as? String == "a" })
            context.delete(a)
            (try player("n", 5, in: context))["game"] = again
            (try player("o", 6, in: context))["game"] = again
            #expect(try context.count(for: FetchRequest("Player", predicate: mine)) == 4)
            #expect(try context.foundNames("Game", "players.@count == 4") == "g")
            #expect(try context.foundNames("Game", "players.@sum.score == 13") == "g")
            #expect(try again.value(forKeyPath: "players.@count") as? Int == 4)
            #expect(try again.value(forKeyPath: "players.@sum.score") as? Int == 13)
            #expect(again.mutableSet("players").count == 4)
        }
    }

    /// Values of related objects by key path, with Core Data’s collection operators.
    /// Source: Apple, Key-Value Coding Programming Guide, “Using Collection Operators”.
    @Test(arguments: SituationStore.allCases, [false, true])
    func collectionOperatorsGoThroughRelationships(store: SituationStore, isSaved: Bool)
        async throws
    {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let game = try context.insertNamed("Game", "g")
            let other = try context.insertNamed("Game", "h")
            for (index, name) in ["a", "b", "b", "c"].enumerated() {
                let player = try player(name, index * 10, in: context)
                player["whistles"] = index < 3 ? game : other
                player["likes"] = index == 0 ? Set([game]) : Set([game, other])
            }
            if isSaved {
                try context.save()
                context.refreshAllObjects()
            }
            let path = { (path: String) in try game.value(forKeyPath: path) }
            #expect(try path("referees.name") as? [String] == ["a", "b", "b"])
            #expect(try path("referees.@distinctUnionOfObjects.name") as? [String] == ["a", "b"])
            #expect(try path("referees.@unionOfObjects.score") as? [Int] == [0, 10, 20])
            #expect(try path("referees.@max.score") as? Int == 20)
            #expect(try path("referees.@avg.score") as? Double == 10)
            #expect(try path("referees.likes.@count") as? Int == 5)
            // Of objects they are objects, and a path can continue.
            for each in ["Objects", "Sets", "Arrays"] {
                let union = "referees.@distinctUnionOf\(each).likes"
                let games = try #require(try path(union) as? [ManagedObject])
                #expect(games.count == 2 && Set(games) == Set([game, other]))
                #expect(
                    (try path("referees.@unionOf\(each).likes") as? [ManagedObject])?.count == 5)
                #expect(try path("\(union).@max.name") as? String == "h")
                #expect(try path("\(union).@unionOf\(each).referees.@count") as? Int == 4)
                #expect(try context.foundNames("Game", "\(union).@max.name == 'h'") == "gh")
                #expect(try context.foundNames("Game", "\(union).@min.name == 'g'") == "gh")
                #expect(try context.foundNames("Game", "\(union).@count == 1") == "")
            }
            let whistles = try path("fans.@distinctUnionOfObjects.whistles") as? [ManagedObject]
            #expect(whistles.map { Set($0) } == Set([game, other]))
        }
    }
}

extension ManagedObject {
    fileprivate func mutableSet(_ key: String) -> [ManagedObject] {
        (try? Array(mutableSetValue(forKey: key))) ?? []
    }
}
