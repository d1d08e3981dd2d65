import Foundation
import Quire
import QuireMacros
import Testing

@Entity(abstract: true) class DiagramPart: ManagedObject {
    @Attribute var name: String
    @Relationship(inverse: \DiagramGroup.parts) var group: DiagramGroup?
    @Relationship(inverse: "related") var related: Set<DiagramPart>
}

@Entity final class DiagramGroup: DiagramPart {
    @Relationship(deleteRule: .cascade) var parts: [DiagramPart]
}

@Entity class DiagramBox: DiagramPart {
    @Relationship(deleteRule: .cascade, inverse: \DiagramArrow.from) var arrows: Set<DiagramArrow>
    @Relationship(inverse: "boxes") var people: [DiagramPerson]
}

@Entity final class DiagramPerson: DiagramBox {
    @Relationship(inverse: "people") var boxes: Set<DiagramBox>
}

@Entity final class DiagramArrow: DiagramPart {
    @Relationship(.required) var from: DiagramBox?
    @Relationship(deleteRule: .nullify) var to: DiagramBox?
}

/// Relationships to an abstract entity whose objects are of several classes, in one table.
@MainActor @Suite struct InheritedSituationTests {
    private func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(
            classes: [
                DiagramPart.self, DiagramGroup.self, DiagramBox.self, DiagramPerson.self,
                DiagramArrow.self,
            ])
    }

    private func named<Part: DiagramPart>(_ name: String, _ part: Part) -> Part {
        part.name = name
        return part
    }

    private func part<Part: DiagramPart>(
        _ type: Part.Type, _ name: String, in context: ManagedObjectContext
    ) throws -> Part {
        try #require(try context.fetch(type, where: #Predicate { $0.name == name }).first)
    }

    /// A group with a box, a person (a box), an arrow between them, and an inner group.
    private func draw(in context: ManagedObjectContext) throws {
        let group = named("g", DiagramGroup(context: context))
        let inner = named("i", DiagramGroup(context: context))
        let box = named("b", DiagramBox(context: context))
        let person = named("p", DiagramPerson(context: context))
        let arrow = named("a", DiagramArrow(context: context))
        group.parts = [person, inner, box]
        inner.parts.append(arrow)
        arrow.from = box
        arrow.to = person
        box.people = [person]
        person.people = [person]
        box.related = [arrow, inner]
        try context.save()
    }

    /// After a restart the objects of a relationship to the abstract entity have their own classes, in their order.
    /// Source: encrypted-core-data #69 “valueForProperty: … assumes relationship properties are of the relationship's
    /// destinationEntity type”; couchbase-lite-ios #1382 “CBLIncrementalStore Inheritance not Preserved”;
    /// APIncrementalStore #9; MagicalRecord #437 “Setting relationships failed when using abstract entities”.
    @Test(arguments: SituationStore.files)
    func membersOfAnAbstractEntityHaveTheirClassesAfterARestart(store: SituationStore) async throws
    {
        try await withProgramFolder { folder in
            let container = try await store.container(try model(), in: folder)
            try draw(in: container.viewContext)
            try container.close()

            let next = try await store.container(try model(), in: folder)
            let context = next.viewContext
            let group = try part(DiagramGroup.self, "g", in: context)
            #expect(group.parts.map(\.name) == ["p", "i", "b"])
            #expect(
                group.parts.map { "\(type(of: $0))" } == [
                    "DiagramPerson", "DiagramGroup", "DiagramBox",
                ])
            let arrow = try part(DiagramArrow.self, "a", in: context)
            #expect(arrow.to is DiagramPerson && arrow.from?.name == "b")
            #expect(arrow.group?.group === group)
            #expect(arrow.related.map(\.name) == ["b"])
            let box = try part(DiagramBox.self, "b", in: context)
            #expect(Set(box.related.map(\.name)) == ["a", "i"])
            #expect(box.people.map(\.name) == ["p"])
            let person = try part(DiagramPerson.self, "p", in: context)
            #expect(person.boxes == [box, person] && person.people == [person])
            #expect(try context.fetch(DiagramPart.self).count == 5)
            #expect(try context.fetch(DiagramBox.self).count == 2)
            #expect(
                try context.fetch(DiagramPart.self, where: #Predicate { $0.group?.name == "g" })
                    .count == 3)
            try next.close()
        }
    }

    /// Moving parts of different classes between groups by the array’s own methods, as of any Swift array; a duplicate is
    /// one member.
    /// Source: openillumi.com “SwiftData Array Reordering Fix”; hackingwithswift “How to create many-to-many relationships”
    /// (SwiftData).
    @Test(arguments: SituationStore.allCases)
    func anArrayOfPartsIsEditedAsAnArray(store: SituationStore) async throws {
        try await withSituation(store, try model()) { container in
            let context = container.viewContext
            try draw(in: context)
            context.reset()
            let group = try part(DiagramGroup.self, "g", in: context)
            let inner = try part(DiagramGroup.self, "i", in: context)
            group.parts.swapAt(0, 2)
            group.parts.insert(named("n", DiagramBox(context: context)), at: 1)
            #expect(group.parts.map(\.name) == ["b", "n", "i", "p"])
            let box = group.parts.removeFirst()
            inner.parts.insert(box, at: 0)
            inner.parts.append(contentsOf: group.parts.filter { $0 is DiagramPerson })
            #expect(group.parts.map(\.name) == ["n", "i"])
            #expect(inner.parts.map(\.name) == ["b", "a", "p"])
            inner.parts = inner.parts.reversed() + inner.parts
            #expect(inner.parts.map(\.name) == ["p", "a", "b"])
            (box as? DiagramBox)?.arrows.removeAll()
            let arrow = try part(DiagramArrow.self, "a", in: context)
            #expect(arrow.from == nil)
            let person = try part(DiagramPerson.self, "p", in: context)
            person.arrows.insert(arrow)
            person.boxes.formUnion(try context.fetch(DiagramBox.self))
            try context.save()
            context.reset()
            let again = try part(DiagramGroup.self, "i", in: context)
            #expect(again.parts.map(\.name) == ["p", "a", "b"] && again.group?.name == "g")
            #expect(try part(DiagramArrow.self, "a", in: context).from?.name == "p")
            #expect(
                Set(try part(DiagramPerson.self, "p", in: context).boxes.map(\.name)) == [
                    "b", "n", "p",
                ])
        }
    }

    /// Deleting by the superentity takes the sub-entities’ objects, with their cascades, and leaves nothing behind; without
    /// sub-entities it takes none of an abstract entity.
    /// Source: SwiftSync #484 “Deletion of ManagedObjects leads to deletion of its inheritance objects”;
    /// encrypted-core-data #18.
    @Test(arguments: SituationStore.allCases, ["delete", "batch"])
    func aDeletionOfBoxesTakesPeopleAndTheirArrows(store: SituationStore, way: String) async throws
    {
        try await withSituation(store, try model()) { container in
            let context = container.viewContext
            try draw(in: context)
            let group = try part(DiagramGroup.self, "g", in: context)
            let arrow = try part(DiagramArrow.self, "a", in: context)
            let box = try part(DiagramBox.self, "b", in: context)
            #expect(group.parts.count == 3 && box.arrows == [arrow])
            var request = BatchDeleteRequest(
                fetchRequest: FetchSpecification("DiagramBox"))
            request.resultType = .objectIDs
            if way == "batch" {
                let result = try context.execute(request)
                #expect(result.count == 3)
                context.mergeChanges(from: result.changes)
            } else {
                for box in try context.fetch(DiagramBox.self) { context.delete(box) }
                try context.save()
            }
            #expect(group.parts.map(\.name) == ["i"])
            #expect(try context.fetch(DiagramPart.self).count == 2)
            let inner = try part(DiagramGroup.self, "i", in: context)
            #expect(inner.parts.isEmpty && inner.related.isEmpty && inner.group === group)
            group.parts.append(named("q", DiagramPerson(context: context)))
            try context.save()
            context.reset()
            #expect(try part(DiagramGroup.self, "g", in: context).parts.map(\.name) == ["i", "q"])
        }
    }
}
