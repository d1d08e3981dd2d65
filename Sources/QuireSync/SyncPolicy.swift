internal import Quire
public import QuireModel

/// The merge policy for an attribute's values that were set concurrently on several machines.
///
/// Declare it in the model, as the entry `syncPolicy` of the attribute's user info with the name of a case, or in code, as an
/// argument of ``SyncContainer``:
///
/// ```swift
/// Attribute("copies", .integer32).default(0).userInfo(["syncPolicy": "counter"])
///
/// @Attribute(userInfo: ["syncPolicy": "counter"]) var copies: Int32       // In a class with @Entity.
///
/// let sync = try SyncContainer(
///     coordinator: coordinator, transport: transport, policies: ["Book": ["copies": .counter]])
/// ```
///
/// A value that was set with knowledge of another one replaces it under all policies but ``counter``. Machines may have different
/// policies, for example during an update: all end with the same values.
///
/// Relationships do not have policies: an unordered relationship is merged as a set, object by object, an ordered one as a list.
public enum SyncPolicy: String, Sendable, Hashable, CaseIterable {
    /// The value that was set last is kept; the other one is a conflict.
    case lastWriter
    /// The greatest value is kept, without a conflict. For numbers, dates, Booleans, and strings, which are compared by their
    /// UTF-8 bytes.
    case maximum
    /// The least value is kept, without a conflict. For numbers, dates, Booleans, and strings, which are compared by their UTF-8
    /// bytes.
    case minimum
    /// The differences of all changes are added up, without a conflict. For numbers.
    ///
    /// The amount by which the first value of a new object exceeds the default value is a difference, too. Null counts as 0 and
    /// stays null until the first increment. The sum of integers and decimals is exact; a sum outside the attribute's range is
    /// shown as the limit of the range and is not lost. Floating-point numbers are rounded. If the policy is declared in the
    /// model, undo subtracts the increments of this machine and keeps those of others.
    case counter
    /// Changes of different lines are merged. If two change the same lines, or insert at the same place, they conflict, as under
    /// ``lastWriter``; so do texts of more than 256 KiB or with more than 1,000 changed lines.
    case text
}

/// Merges two values of an attribute that were set concurrently, as a custom ``SyncPolicy``.
///
/// Receives the value from which both were derived, if it is known, and the two values, the later one last. Returns the value
/// that replaces both on all machines, or `nil` to keep the later one and list the other as a conflict. It runs on the machine
/// that set the later value.
///
/// It is called within a transaction of the store, on a separate queue, so it must not use the store.
/// It is called within a transaction of the store, on a queue of its own, so it must not use the store.
public typealias SyncResolver =
    @Sendable (_ base: AttributeValue?, _ earlier: AttributeValue, _ later: AttributeValue) ->
    AttributeValue?

/// The policies and resolvers of a model's attributes.
struct SyncPolicies: Sendable {
    /// By the number of the entity, then by the name of the slot.
    private var policies: [Int: [String: SyncPolicy]] = [:]
    private var resolvers: [Int: [String: SyncResolver]] = [:]

    /// The last writer's value for all attributes.
    init() {}

    /// Reads the model's policies; what is declared in code overrides them, also for sub-entities.
    ///
    /// - Throws: `QuireError` with code `invalidModel` if a policy is unknown or does not fit its attribute, `unknownEntity`,
    ///   `unknownKey`.
    init(
        _ layout: ResolvedModel, declared: [String: [String: SyncPolicy]] = [:],
        resolvers: [String: [String: SyncResolver]] = [:]
    ) throws {
        let names = declared.mapValues { Set($0.keys) }
            .merging(resolvers.mapValues { Set($0.keys) }) { $0.union($1) }
        for (entity, properties) in names.sorted(by: { $0.key < $1.key }) {
            try Self.check(properties.sorted(), ofEntity: entity, in: layout)
        }
        for entity in layout.entities {
            try Self.checkComposites(of: entity)
            for slot in entity.slots {
                guard let attribute = slot.attribute else { continue }
                if let resolver = Self.declared(resolvers, slot, entity, layout) {
                    try Self.checkIsSynchronized(slot, of: entity)
                    self.resolvers[entity.number, default: [:]][slot.name] = resolver
                    continue
                }
                let policy =
                    try Self.declared(declared, slot, entity, layout)
                    ?? Self.policy(in: attribute, slot.name, entity)
                guard policy != .lastWriter else { continue }
                try Self.check(policy, fits: slot, of: entity)
                policies[entity.number, default: [:]][slot.name] = policy
            }
        }
    }

    /// The policies of an entity's attributes, without those that have the default one.
    subscript(entity: ResolvedEntity) -> [String: SyncPolicy] { policies[entity.number] ?? [:] }

    /// The resolvers of an entity's attributes, which take the place of policies.
    func resolvers(of entity: ResolvedEntity) -> [String: SyncResolver] {
        resolvers[entity.number] ?? [:]
    }

    private static func check(
        _ properties: [String], ofEntity name: String, in layout: ResolvedModel
    ) throws {
        guard let entity = layout.entity(named: name) else {
            throw QuireError(
                .unknownEntity,
                "A synchronization policy is specified for entity “\(name)”, which is not in the model.",
                entity: name)
        }
        for property in properties {
            if entity.slots.contains(where: { $0.name == property && $0.attribute != nil }) {
                continue
            }
            throw QuireError(
                .unknownKey,
                "A synchronization policy is specified for “\(property)” of \(name), which is not an attribute; specify it for an attribute, or for an element of a composite.",
                entity: name, property: property)
        }
    }

    /// The policy or resolver that is declared in code for an entity, or for the nearest of its superentities.
    private static func declared<Rule>(
        _ declared: [String: [String: Rule]], _ slot: ResolvedEntity.Slot,
        _ entity: ResolvedEntity, _ layout: ResolvedModel
    ) -> Rule? {
        var next: ResolvedEntity? = entity
        while let entity = next {
            if let rule = declared[entity.name]?[slot.name] { return rule }
            next = entity.superentityNumber.map { layout.entity(number: $0) }
        }
        return nil
    }

    private static func policy(
        in attribute: AttributeDescription, _ name: String, _ entity: ResolvedEntity
    ) throws -> SyncPolicy {
        guard let value = attribute.userInfo[AttributeDescription.syncPolicyKey] else {
            return .lastWriter
        }
        guard case .string(let text) = value, let policy = SyncPolicy(rawValue: text) else {
            let names = SyncPolicy.allCases.map(\.rawValue).joined(separator: ", ")
            throw invalid(
                entity, name, "has an unknown synchronization policy; the policies are \(names)")
        }
        return policy
    }

    private static func checkComposites(of entity: ResolvedEntity) throws {
        for attribute in entity.description.attributes
        where attribute.type == .composite
            && attribute.userInfo[AttributeDescription.syncPolicyKey] != nil
        {
            throw invalid(
                entity, attribute.name,
                "is a composite, which cannot have a synchronization policy; declare policies for its elements"
            )
        }
    }

    private static func check(
        _ policy: SyncPolicy, fits slot: ResolvedEntity.Slot, of entity: ResolvedEntity
    ) throws {
        try checkIsSynchronized(slot, of: entity)
        guard policy.fits(slot.attribute?.type ?? .undefined) else {
            throw invalid(
                entity, slot.name,
                "has a type that the synchronization policy “\(policy.rawValue)” does not support")
        }
        // An object's identity is decided by the values that rows have been given, not by sums.
        let isUnique = entity.uniquenessConstraints.contains { $0.properties.contains(slot.name) }
        if policy == .counter, isUnique || SyncModel.identity(of: entity).contains(slot.name) {
            throw invalid(entity, slot.name, "must be unique, so it cannot be a counter")
        }
    }

    private static func checkIsSynchronized(
        _ slot: ResolvedEntity.Slot, of entity: ResolvedEntity
    ) throws {
        if slot.isStored, !slot.isDerived { return }
        throw invalid(
            entity, slot.name,
            "has a synchronization policy, but is not synchronized because it is transient or derived"
        )
    }

    private static func invalid(
        _ entity: ResolvedEntity, _ property: String, _ problem: String
    ) -> QuireError {
        QuireError(
            .invalidModel, "“\(property)” of \(entity.name) \(problem).",
            entity: entity.name, property: property)
    }
}

extension SyncPolicy {
    func fits(_ type: AttributeType) -> Bool {
        switch (self, type) {
        case (.lastWriter, _): true
        case (.text, .string): true
        case (.maximum, .string), (.maximum, .date), (.maximum, .boolean): true
        case (.minimum, .string), (.minimum, .date), (.minimum, .boolean): true
        case (.maximum, _), (.minimum, _), (.counter, _): type.isNumber
        case (.text, _): false
        }
    }
}
