import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct ModelLayoutTests {
    /// The rule of the format description, said again: parents before children, siblings by name in lower case.
    private func expectedNumbers(_ model: ManagedObjectModel) -> [String: Int] {
        var numbers: [String: Int] = [:]
        func visit(below parent: String?) {
            for entity in model.entities.filter({ $0.superentityName == parent })
                .sorted(by: { $0.name.lowercased() < $1.name.lowercased() })
            {
                numbers[entity.name] = numbers.count + 1
                visit(below: entity.name)
            }
        }
        visit(below: nil)
        return numbers
    }

    @Test func entitiesAreNumberedParentsFirstAndWithoutRegardToCase() throws {
        let model = ManagedObjectModel {
            Entity("SFile")
            Entity("zebra", inherits: "ScheduledMemberTag")
            Entity("Apple", inherits: "ScheduledMemberTag")
            Entity("ScheduledMemberTag")
            Entity("SContact")
            Entity("Banana", inherits: "Apple")
        }
        let layout = try model.layout()
        #expect(
            layout.entities.map(\.name) == [
                "ScheduledMemberTag", "Apple", "Banana", "zebra", "SContact", "SFile",
            ])
        #expect(layout.entities.map(\.subtree) == [1...4, 2...3, 3...3, 4...4, 5...5, 6...6])
        #expect(layout.entities.map(\.superentityNumber) == [nil, 1, 2, 1, nil, nil])
        #expect(layout.entities.map(\.rootNumber) == [1, 1, 1, 1, 5, 6])
    }

    @Test func randomForestsAreNumberedByTheRule() throws {
        for seed in SeededRandom.baseSeed..<SeededRandom.baseSeed + 50 {
            var random = SeededRandom(seed: seed)
            var names: [String] = []
            var model = ManagedObjectModel()
            let letters = Array("aAbBcC_zZ")
            for _ in 0..<Int.random(in: 1...40, using: &random) {
                let name =
                    "E" + String((0..<5).map { _ in letters.randomElement(using: &random) ?? "a" })
                if names.contains(where: { $0.lowercased() == name.lowercased() }) { continue }
                var entity = EntityDescription(name: name)
                if Bool.random(using: &random) {
                    entity.superentityName = names.randomElement(using: &random)
                }
                names.append(name)
                model.entities.append(entity)
            }
            model.entities.shuffle(using: &random)
            let layout = try model.layout()
            let numbers = Dictionary(
                uniqueKeysWithValues: layout.entities.map { ($0.name, $0.number) })
            #expect(numbers == expectedNumbers(model), "seed \(seed)")
        }
    }

    @Test func subentitiesKeepTheSlotsOfTheirSuperentity() throws {
        let layout = try ManagedObjectModel {
            Composite("P") {
                Attribute("x", .double)
                Attribute("inner", composite: "Q")
            }
            Composite("Q") { Attribute("y", .boolean) }
            Entity("A") {
                Attribute("name", .string)
                Attribute("place", composite: "P")
                ToOne("next", "B")
            }
            Entity("B", inherits: "A") { Attribute("size", .integer16) }
        }.layout()
        let entity = try layout.requireEntity(named: "B")
        #expect(
            entity.slots.map(\.name) == ["name", "place.x", "place.inner.y", "next", "size"])
        #expect(entity.propertyNames == ["name", "next", "place", "size"])
        guard case .composite(slots: 1..<3)? = entity.properties["place"] else {
            Issue.record("place is no composite")
            return
        }
    }
}
