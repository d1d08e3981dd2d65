import Quire

/// What an object graph should be, as plain values: the oracle of the model-based tests. It knows nothing of
/// contexts, faults or stores; an operation is a few lines on dictionaries.
struct ReferenceGraph: Equatable {
    struct Node: Equatable {
        var entity: String
        var text: String
        /// By relationship. To-one and ordered ones as they are, others sorted.
        var links: [String: [Int]] = [:]
    }

    /// The objects there are, by a number that each has as an attribute.
    private(set) var nodes: [Int: Node] = [:]

    var numbers: [Int] { nodes.keys.sorted() }

    func links(of number: Int, _ name: String) -> [Int] { nodes[number]?.links[name] ?? [] }

    // MARK: Operations

    mutating func insert(_ number: Int, entity: String) {
        nodes[number] = Node(entity: entity, text: "")
    }

    mutating func setText(_ text: String, of number: Int) { nodes[number]?.text = text }

    /// Sets what a relationship leads to: at most one object if it is to-one, in this order if it has one.
    mutating func set(_ targets: [Int], of number: Int, _ link: ReferenceModel.Link) {
        for old in links(of: number, link.name) where !targets.contains(old) {
            unlink(number, link, old)
        }
        for new in targets { join(number, link, new) }
        if link.isOrdered && !targets.isEmpty { nodes[number]?.links[link.name] = targets }
    }

    /// Adds to a to-many relationship, last if it is ordered and the object is not there yet.
    mutating func add(_ target: Int, to number: Int, _ link: ReferenceModel.Link) {
        join(number, link, target)
    }

    mutating func remove(_ target: Int, from number: Int, _ link: ReferenceModel.Link) {
        if links(of: number, link.name).contains(target) { unlink(number, link, target) }
    }

    /// Puts an object at a position of an ordered relationship, whether it is there or not.
    mutating func insert(
        _ target: Int, into number: Int, _ link: ReferenceModel.Link, at index: Int
    ) {
        join(number, link, target)
        var order = links(of: number, link.name)
        order.removeAll { $0 == target }
        order.insert(target, at: index)
        nodes[number]?.links[link.name] = order
    }

    /// Deletes an object by the delete rules of its relationships.
    mutating func delete(_ number: Int, _ model: ReferenceModel) {
        guard let node = nodes[number] else { return }
        var doomed: [Int] = []
        for link in model.links(of: node.entity) where link.rule != .deny && link.rule != .noAction
        {
            for target in links(of: number, link.name) {
                if link.inverse != nil { unlink(number, link, target) }
                if link.rule == .cascade { doomed.append(target) }
            }
        }
        nodes[number] = nil
        for target in doomed { delete(target, model) }
    }

    /// Whether deleting an object now leaves one behind that a deny rule protects.
    func denies(deletionOf number: Int, _ model: ReferenceModel) -> Bool {
        var after = self
        after.delete(number, model)
        return nodes.contains { other, node in
            after.nodes[other] == nil
                && model.links(of: node.entity).contains { link in
                    link.rule == .deny
                        && links(of: other, link.name).contains { target in
                            after.nodes[target] != nil
                                && after.links(of: target, link.inverse ?? "").contains(other)
                        }
                }
        }
    }

    /// Makes an object what it was in another graph, which this one comes from: also the others' lists as far as they
    /// lead to it. What has gone since stays away.
    mutating func restore(_ number: Int, from base: ReferenceGraph, _ model: ReferenceModel) {
        guard let saved = base.nodes[number] else { return }
        nodes[number, default: Node(entity: saved.entity, text: "")].text = saved.text
        for link in model.links(of: saved.entity) {
            guard let back = link.back else {
                nodes[number]?.links[link.name] = saved.links[link.name] ?? []
                continue
            }
            let targets = base.links(of: number, link.name).filter { nodes[$0] != nil }
            for (other, node) in nodes
            where !targets.contains(other)
                && model.links(of: node.entity)
                    .contains(where: { $0.name == back.name && $0.inverse == link.name })
            {
                nodes[other]?.links[back.name]?.removeAll { $0 == number }
            }
            let new = targets.filter { !links(of: $0, back.name).contains(number) }
            // Both sides are there, or none.
            for target in new { nodes[number]?.links[link.name]?.removeAll { $0 == target } }
            set(targets, of: number, link)
            if back.isOrdered {
                for target in new {
                    restorePlace(
                        of: number, in: target, back.name, base.links(of: target, back.name))
                }
            }
        }
    }

    private mutating func restorePlace(
        of number: Int, in owner: Int, _ name: String, _ saved: [Int]
    ) {
        guard let place = saved.firstIndex(of: number) else { return }
        var list = links(of: owner, name).filter { $0 != number }
        let previous = saved[..<place].last(where: list.contains)
        list.insert(
            number, at: previous.flatMap { list.firstIndex(of: $0) }.map { $0 + 1 } ?? 0)
        nodes[owner]?.links[name] = list
    }

    /// The graph with what another one has changed since it was `old`: texts, and if it is the only one that changes
    /// them, objects and links.
    func taking(
        _ other: ReferenceGraph, changedFrom old: ReferenceGraph, withLinks: Bool
    ) -> ReferenceGraph {
        var result = withLinks ? other : self
        for number in result.nodes.keys {
            if let text = other.nodes[number]?.text, text != old.nodes[number]?.text {
                result.nodes[number]?.text = text
            } else if let text = nodes[number]?.text {
                result.nodes[number]?.text = text
            }
        }
        return result
    }

    // MARK: Both sides

    private mutating func join(_ number: Int, _ link: ReferenceModel.Link, _ target: Int) {
        guard !links(of: number, link.name).contains(target) else { return }
        // Who is there gives way, on both ends.
        if !link.isToMany, let old = links(of: number, link.name).first {
            unlink(number, link, old)
        }
        if let back = link.back, !back.isToMany, let old = links(of: target, back.name).first {
            unlink(old, link, target)
        }
        place(target, in: number, link.name, isOrdered: link.isOrdered)
        if let back = link.back {
            place(number, in: target, back.name, isOrdered: back.isOrdered)
        }
    }

    private mutating func unlink(_ number: Int, _ link: ReferenceModel.Link, _ target: Int) {
        nodes[number]?.links[link.name]?.removeAll { $0 == target }
        if let back = link.back {
            nodes[target]?.links[back.name]?.removeAll { $0 == number }
        }
    }

    private mutating func place(
        _ target: Int, in number: Int, _ name: String, isOrdered: Bool
    ) {
        var list = links(of: number, name)
        if list.contains(target) { return }
        list.append(target)
        nodes[number]?.links[name] = isOrdered ? list : list.sorted()
    }

    // MARK: Comparing

    /// The graph without empty lists and without references to objects that are gone, which a relationship
    /// without an inverse may hold.
    var canonical: ReferenceGraph { canonical(droppingReferencesOf: { _ in true }) }

    /// The graph as a store keeps it: a row may refer to one that is gone, but a to-many relationship without an
    /// inverse is kept in the rows of the objects in it.
    func stored(_ model: ReferenceModel) -> ReferenceGraph {
        canonical { name in model.links(of: "B").contains { $0.name == name && $0.isToMany } }
    }

    private func canonical(droppingReferencesOf drops: (String) -> Bool) -> ReferenceGraph {
        var result = self
        for (number, node) in nodes {
            var links = node.links
            for (name, list) in links where drops(name) {
                links[name] = list.filter { nodes[$0] != nil }
            }
            result.nodes[number]?.links = links.filter { !$0.value.isEmpty }
        }
        return result
    }

    mutating func put(_ node: Node, at number: Int) { nodes[number] = node }

    /// What breaks the rule that both sides of a relationship agree, between objects that are not excepted.
    func asymmetries(_ model: ReferenceModel, except excepted: Set<Int> = []) -> [String] {
        var found: [String] = []
        for (number, node) in nodes where !excepted.contains(number) {
            for link in model.links(of: node.entity) {
                let targets = links(of: number, link.name)
                if Set(targets).count != targets.count {
                    found.append("\(number).\(link.name) has an object twice: \(targets)")
                }
                guard let back = link.back else { continue }
                for target in targets
                where nodes[target] != nil && !excepted.contains(target)
                    && !links(of: target, back.name).contains(number)
                {
                    found.append("\(number).\(link.name) refers to \(target), not back")
                }
            }
        }
        return found
    }

    /// The differences to another graph, for a failure's message.
    func difference(to other: ReferenceGraph) -> String {
        Set(nodes.keys).union(other.nodes.keys).sorted().compactMap { number in
            let (left, right) = (nodes[number], other.nodes[number])
            if left == right { return nil }
            return
                "\(number): \(left.map { "\($0)" } ?? "none") ≠ \(right.map { "\($0)" } ?? "none")"
        }.joined(separator: "\n")
    }
}
