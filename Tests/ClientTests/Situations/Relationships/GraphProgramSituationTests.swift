import Foundation
import Quire
import Testing

/// Programs that treat any graph by its descriptions: deep copies, exports into another store, audits, batch imports.
@MainActor @Suite struct GraphProgramSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Recipe") {
            Attribute("name", .string)
            Attribute("code", .string)
            ToMany("steps", "Step", inverse: "recipe").ordered().deleteRule(.cascade)
            ToMany("tags", "Tag", inverse: "recipes")
            ToOne("base", "Recipe", inverse: "variants")
            ToMany("variants", "Recipe", inverse: "base").deleteRule(.cascade)
            ToOne("photo", "Photo", inverse: "recipe").deleteRule(.cascade)
        }
        Entity("Step") {
            Attribute("name", .string)
            ToOne("recipe", "Recipe", inverse: "steps").required()
            ToMany("after", "Step", inverse: "before").ordered()
            ToMany("before", "Step", inverse: "after").ordered()
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("recipes", "Recipe", inverse: "tags").ordered()
        }
        Entity("Photo") {
            Attribute("name", .string)
            ToOne("recipe", "Recipe", inverse: "photo").required()
        }
    }

    @discardableResult
    private func fill(_ context: ManagedObjectContext) throws -> ManagedObject {
        let tags = try ["t", "u"].map { try context.insertNamed("Tag", $0) }
        let recipe = try context.insertNamed("Recipe", "r", ["tags": Set(tags), "code": "R1"])
        let steps = try ["1", "2", "3"].map { try context.insertNamed("Step", $0) }
        recipe["steps"] = [steps[2], steps[0], steps[1]]
        steps[0]["after"] = [steps[2], steps[1]]
        steps[1]["before"] = [steps[2], steps[0]]
        let variant = try context.insertNamed(
            "Recipe", "v", ["base": recipe, "tags": Set([tags[0]])])
        variant.add(try context.insertNamed("Step", "4"), to: "steps")
        tags[0]["recipes"] = [variant, recipe]
        recipe["photo"] = try context.insertNamed("Photo", "p")
        try context.save()
        return recipe
    }

    /// Copies an object with everything it leads to; objects in `kept` are not copied but referred to.
    private func copy(
        _ object: ManagedObject, into context: ManagedObjectContext, keeping kept: Set<String>,
        _ copies: inout [ManagedObjectID: ManagedObject]
    ) throws -> ManagedObject {
        if let copy = copies[object.objectID] { return copy }
        if kept.contains(object.entity.name) { return object }
        let copy = try context.insertObject(entityName: object.entity.name)
        copies[object.objectID] = copy
        for key in object.entity.attributesByName.keys {
            try copy.setValue(object.value(forKey: key), forKey: key)
        }
        for (key, relationship) in object.entity.relationshipsByName {
            if relationship.isToMany {
                let members = try object.objects(key).map {
                    try self.copy($0, into: context, keeping: kept, &copies)
                }
                try copy.setValue(
                    relationship.isOrdered ? members as Any : Set(members), forKey: key)
            } else if let destination = object.object(key) {
                try copy.setValue(
                    self.copy(destination, into: context, keeping: kept, &copies), forKey: key)
            }
        }
        return copy
    }

    /// The whole graph from an object, as text.
    private func text(_ recipe: ManagedObject) -> String {
        var parts = [recipe["name"] as? String ?? "-", recipe["code"] as? String ?? "-"]
        parts.append(recipe.memberNames("steps"))
        parts += recipe.objects("steps").map {
            "\($0.memberNames("before"))<\($0.destinationName("recipe") ?? "-")<\($0.memberNames("after"))"
        }
        parts.append(recipe.memberNames("tags"))
        parts.append(recipe.destinationName("photo") ?? "-")
        parts += recipe.objects("variants").map { "(" + text($0) + ")" }
        return parts.joined(separator: " ")
    }

    /// “Duplicate” in the menu: a deep copy by entity descriptions, with cycles, orders and shared objects that stay shared.
    /// Source: Stack Overflow 2730832 “How can I duplicate, or copy a Core Data Managed Object?”.
    @Test(arguments: SituationStore.allCases)
    func aDeepCopyByDescriptionsIsEqualAndSeparate(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let recipe = try fill(context)
            context.refreshAllObjects()
            let expected = "r R1 312 1<r<2 <r<32 31<r< tu p (v - 4 <v< t -)"
            let before = text(recipe)
            #expect(before == expected)
            var copies: [ManagedObjectID: ManagedObject] = [:]
            let copy = try copy(recipe, into: context, keeping: ["Tag"], &copies)
            #expect(copies.count == 7)
            #expect(text(recipe) == before)
            #expect(text(copy) == before)
            try context.save()
            context.refreshAllObjects()
            #expect(text(recipe) == before && text(copy) == before)
            #expect(try context.foundNames("Recipe", "ANY tags.name == 't'") == "rrvv")
            context.delete(copy)
            #expect(text(recipe) == before)
            try context.save()
            context.refreshAllObjects()
            #expect(text(recipe) == before)
            #expect(try context.foundNames("Step") == "1234")
        }
    }

    /// An export of one recipe into a store of another type: nothing of the source changes, and the copy is whole.
    /// Source: Apple, “Troubleshooting Core Data”, “Assigning a managed object to a different store”.
    @Test(arguments: SituationStore.files)
    func aGraphIsCopiedIntoAnotherStore(store: SituationStore) async throws {
        try await withProgramFolder { folder in
            let source = try await SituationStore.sqlite.container(
                Self.model, in: folder, named: "Source")
            let recipe = try fill(source.viewContext)
            let target = try await store.container(Self.model, in: folder, named: "Target")
            // An object of another container is refused.
            let foreign = try target.viewContext.insertNamed("Tag", "x")
            #expect(throws: QuireError.self) { try recipe.setValue(Set([foreign]), forKey: "tags") }
            #expect(throws: QuireError.self) { try foreign.setValue([recipe], forKey: "recipes") }
            target.viewContext.delete(foreign)
            var copies: [ManagedObjectID: ManagedObject] = [:]
            _ = try copy(recipe, into: target.viewContext, keeping: [], &copies)
            try target.viewContext.save()
            #expect(!source.viewContext.hasChanges)
            try target.close()
            let next = try await store.container(Self.model, in: folder, named: "Target")
            #expect(text(try next.viewContext.findNamed("Recipe", "r")) == text(recipe))
            #expect(try next.viewContext.findNamed("Tag", "t").memberNames("recipes") == "vr")
            try next.close()
            try source.close()
        }
    }

    /// An audit log, written by the observer of a save: what was related to what before, of changed and deleted objects.
    /// Source: Apple documentation, `changedValues()` and `committedValues(forKeys:)`.
    @Test(arguments: SituationStore.allCases)
    func anAuditSeesOldAndNewRelationships(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let recipe = try fill(context)
            context.refreshAllObjects()
            let variant = try context.findNamed("Recipe", "v")
            let steps = recipe.objects("steps")
            context.delete(steps[1])
            recipe.moveObject(in: "steps", from: 0, to: 1)
            variant["base"] = nil
            recipe["photo"] = try context.insertNamed("Photo", "q")
            recipe["name"] = "r"  // The same.
            #expect(!recipe.changedValues().isEmpty)
            #expect(
                Set(recipe.changedValues().keys).isSuperset(of: ["steps", "photo", "variants"]))
            #expect(recipe.changedValues()["tags"] == nil)
            #expect(variant.changedValues().keys.contains("base"))
            let old = try recipe.committedValues(forKeys: ["steps", "photo", "variants"])
            guard case .objectIDs(let oldSteps)? = old["steps"],
                case .objectIDs(let oldVariants)? = old["variants"]
            else {
                Issue.record("\(old)")
                return
            }
            #expect(Array(oldSteps) == steps.map(\.objectID))
            #expect(Array(oldVariants) == [variant.objectID])
            let gone = try steps[1].committedValues(forKeys: ["recipe", "name"])
            #expect("\(String(describing: gone["recipe"]))".contains("Recipe"))
            // Back to what it was: nothing to save in these.
            variant["base"] = recipe
            #expect(recipe.memberNames("variants") == "v")
            #expect(recipe.changedValues()["variants"] == nil)
        }
    }

    /// A batch insertion of rows with owners; the owner, whose relationship was read, shows them after the merge, and they
    /// can be moved, saved and deleted like others.
    /// Source: swiftstudent.com “NSBatchInsertRequest” (its caveats: no relationships, contexts to be updated).
    @Test(arguments: SituationStore.allCases)
    func rowsOfABatchInsertionJoinTheirOwner(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let recipe = try fill(context)
            #expect(recipe.memberNames("steps") == "312" && recipe.memberNames("variants") == "v")
            var request = BatchInsertRequest(
                entityName: "Step",
                objects: ["a", "b"].map {
                    ["name": $0, "recipe": recipe.objectID] as [String: Any]
                })
            request.resultType = .objectIDs
            let result = try context.execute(request)
            #expect(result.count == 2)
            context.mergeChanges(from: result.changes)
            var variants = BatchInsertRequest(
                entityName: "Recipe",
                objects: [["name": "w", "base": recipe.objectID] as [String: Any]])
            variants.resultType = .objectIDs
            context.mergeChanges(from: try context.execute(variants).changes)
            #expect(recipe.memberNames("steps").sorted() == ["1", "2", "3", "a", "b"])
            #expect(recipe.memberNames("variants") == "vw")
            let order = recipe.memberNames("steps")
            #expect(order.filter { "123".contains($0) } == "312")
            context.refreshAllObjects()
            #expect(recipe.memberNames("steps") == order)
            recipe.moveObject(in: "steps", from: 4, to: 0)
            recipe.insert(try context.insertNamed("Step", "n"), into: "steps", at: 3)
            let moved = recipe.memberNames("steps")
            try context.save()
            context.reset()
            let again = try context.findNamed("Recipe", "r")
            #expect(again.memberNames("steps") == moved && moved.count == 6)
            context.delete(again)
            try context.save()
            #expect(try context.foundNames("Step") == "" && context.foundNames("Recipe") == "")
        }
    }

    /// A report: the number of steps by recipe, without reading an object; recipes sorted by their base’s name.
    /// Source: cocoanetics.com “Group by, Count and Sum in CoreData”.
    @Test(arguments: SituationStore.allCases)
    func objectsAreGroupedAndSortedByRelationships(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let recipe = try fill(context)
            var request = FetchRequest<ManagedObject>("Step")
            request.propertiesToFetch = [
                "recipe", "recipe.name", try ExpressionDescription("number", format: "count(SELF)"),
            ]
            request.propertiesToGroupBy = ["recipe", "recipe.name"]
            let rows = try context.fetchDictionaries(request)
            #expect(rows.count == 2)
            #expect(
                rows.contains {
                    $0["recipe"] == .objectID(recipe.objectID) && $0["number"] == .integer(3)
                })
            let sorted: [ManagedObject] = try context.fetch(
                FetchRequest(
                    "Recipe", sortOrderings: [SortOrdering("base.name"), SortOrdering("name")]))
            #expect(sorted.map { $0["name"] as? String } == ["r", "v"])
            let most: [ManagedObject] = try context.fetch(
                FetchRequest(
                    "Recipe",
                    sortOrderings: [
                        SortOrdering("steps.@count", ascending: true), SortOrdering("name"),
                    ]))
            #expect(most.map { $0["name"] as? String } == ["v", "r"])
            #expect(
                try recipe.objects("steps").sorted(by: [SortOrdering("name", ascending: false)])
                    .map { $0["name"] as? String } == ["3", "2", "1"])
        }
    }
}
