internal import Foundation
package import QuireModel
public import QuireQuery
internal import QuireSystem

/// The part of a history that a request's fetch request selects, and its order; all of it if the request has none.
///
/// Stores read one transaction after the other into it. The condition is evaluated as on objects in memory, on stand-ins for
/// transactions and changes (``HistoryModel``).
package struct PersistentHistorySelection {
    /// A selected transaction, or a selected change with its transaction.
    private struct Element {
        /// The position of the transaction among all that were read.
        let position: Int
        /// The transaction; without changes if a change is selected.
        let transaction: PersistentHistoryTransaction
        let change: PersistentHistoryChange?
        /// The values that it is sorted by.
        let sortValues: [AttributeValue]
    }

    private let type: PersistentHistoryChangeRequest.ResultType
    private let fetch: FetchSpecification?
    private let model: HistoryModel?
    /// The tokens in the condition.
    package private(set) var tokens: [PersistentHistoryToken] = []
    /// The checked fetch requests by the UUIDs of stores, in which a token is a number.
    private var queries: [String: ResolvedQuery] = [:]
    private var elements: [Element] = []
    private var nextPosition = 0

    /// Checks a request.
    ///
    /// - Parameter layout: The model of the changed objects.
    /// - Throws: ``QuireError`` with code `invalidQuery`, `unknownKey` or `unsupported`.
    package init(_ request: PersistentHistoryChangeRequest, layout: ResolvedModel) throws {
        type = request.resultType
        if let failure = request.fetchFailure { throw failure }
        fetch = request.fetchSpecification
        guard let fetch else {
            model = nil
            return
        }
        if request.deletes {
            throw QuireError(
                .invalidQuery,
                "A request that deletes history does not accept a fetch request; it deletes whole transactions, the oldest first."
            )
        }
        let model = try HistoryModel(layout)
        self.model = model
        try model.check(fetch)
        var tokens: [PersistentHistoryToken] = []
        _ = fetch.mappingTokens { token in
            tokens.append(token)
            return 0
        }
        self.tokens = tokens
        // Errors are the same for every store, and if there are no transactions.
        _ = try query(forStore: "")
    }

    /// Whether changes are selected, one by one.
    private var selectsChanges: Bool { fetch?.entityName == HistoryModel.changeName }

    private mutating func query(forStore uuid: String) throws -> ResolvedQuery? {
        guard let fetch, let model else { return nil }
        if let known = queries[uuid] { return known }
        let query = try ResolvedQuery(
            fetch.mappingTokens { $0.transactionNumbers[uuid] ?? 0 }, in: model.layout,
            allowsTransient: true)
        queries[uuid] = query
        return query
    }

    /// The condition on transactions of a store, or on their changes, and the key path from what it tests to the transaction; `nil` if
    /// all are selected.
    package mutating func predicate(
        forStore uuid: String
    ) throws -> (QueryPredicate, transaction: [String])? {
        guard let query = try query(forStore: uuid) else { return nil }
        return (query.predicate, selectsChanges ? ["transaction"] : [])
    }

    /// The number of elements after which no more are needed.
    private var sufficientCount: Int {
        guard let fetch, fetch.fetchLimit > 0, fetch.sortOrderings.isEmpty else { return .max }
        let (sum, overflows) = max(fetch.fetchOffset, 0).addingReportingOverflow(fetch.fetchLimit)
        return overflows ? .max : sum
    }

    /// Takes what is selected of a transaction.
    ///
    /// - Parameters:
    ///   - transaction: The transaction; its changes are not used.
    ///   - changes: Reads its changes. Called only if they are needed.
    /// - Returns: Whether more transactions are needed.
    package mutating func add(
        _ transaction: PersistentHistoryTransaction,
        changes: () throws -> [PersistentHistoryChange]
    ) throws -> Bool {
        defer { nextPosition += 1 }
        guard let query = try query(forStore: transaction.storeUUID), let model else {
            let changes = type.needsChanges ? try changes() : []
            append(transaction.withChanges(changes), nil, [])
            return true
        }
        let store = transaction.storeUUID.uppercased()
        if let stores = query.request.affectedStores,
            !stores.contains(where: { $0.uppercased() == store })
        {
            return true
        }
        if selectsChanges {
            let read = try changes()
            let whole = transaction.withChanges(read)
            let bare = transaction.withChanges([])
            for change in read {
                let subject = HistoryChangeSubject(change, in: whole, model)
                if try PredicateEvaluator(subject: subject).holds(query.predicate) {
                    append(bare, change, try query.sortValues(of: subject))
                }
                if elements.count == sufficientCount { return false }
            }
            return true
        }
        let usesChanges = query.keyPaths.contains { path in
            path.steps.contains { $0.relationship.name == HistoryModel.changesKey }
        }
        let known = usesChanges ? try changes() : nil
        let subject = HistoryTransactionSubject(transaction.withChanges(known ?? []), model)
        guard try PredicateEvaluator(subject: subject).holds(query.predicate) else { return true }
        let sortValues = try query.sortValues(of: subject)
        let needed = type.needsChanges ? try known ?? changes() : []
        append(transaction.withChanges(needed), nil, sortValues)
        return elements.count != sufficientCount
    }

    private mutating func append(
        _ transaction: PersistentHistoryTransaction, _ change: PersistentHistoryChange?,
        _ sortValues: [AttributeValue]
    ) {
        elements.append(
            Element(
                position: nextPosition, transaction: transaction, change: change,
                sortValues: sortValues))
    }

    /// The result of all transactions added.
    package func result() -> PersistentHistoryResult {
        var selected = elements[...]
        if let fetch {
            if !fetch.sortOrderings.isEmpty { selected = sorted(by: fetch.sortOrderings)[...] }
            selected = selected.dropFirst(max(fetch.fetchOffset, 0))
            if fetch.fetchLimit > 0 { selected = selected.prefix(fetch.fetchLimit) }
        }
        guard selectsChanges else {
            return PersistentHistoryResult(selected.map(\.transaction), as: type)
        }
        let changes = selected.compactMap(\.change)
        switch type {
        case .statusOnly: return PersistentHistoryResult()
        case .count: return PersistentHistoryResult(count: changes.count)
        case .objectIDs, .changesOnly: return PersistentHistoryResult(changes, as: type)
        case .transactionsOnly, .transactionsAndChanges:
            let groups = Dictionary(grouping: selected, by: \.position).sorted { $0.key < $1.key }
            let transactions = groups.compactMap { _, elements in
                elements.first?.transaction.withChanges(
                    type.needsChanges ? elements.compactMap(\.change) : [])
            }
            return PersistentHistoryResult(transactions, as: type)
        }
    }

    private func sorted(by orderings: [SortOrdering]) -> [Element] {
        let order = elements.indices.sorted { left, right in
            for (index, ordering) in orderings.enumerated() {
                let order = ordering.compare(
                    elements[left].sortValues[index], elements[right].sortValues[index])
                if order != 0 { return order < 0 }
            }
            return left < right
        }
        return order.map { elements[$0] }
    }
}

extension ResolvedQuery {
    fileprivate func sortValues(of subject: some QuerySubject) throws -> [AttributeValue] {
        try request.sortOrderings.map { try $0.resolvedSortValue(of: subject) }
    }
}

// MARK: - The model

/// The entities and keys of fetch requests for history.
package struct HistoryModel: Sendable {
    /// The entity names of the fetch requests.
    package static let transactionName = "PersistentHistoryTransaction"
    package static let changeName = "PersistentHistoryChange"
    static let changesKey = "changes"
    private static let objectName = "ManagedObject"
    static let propertyName = "PropertyDescription"

    let layout: ResolvedModel
    /// The model of the changed objects.
    let objects: ResolvedModel
    /// The identity of identifiers of transactions and properties, which only stand for them in expressions.
    fileprivate let identity: StoreIdentity

    fileprivate init(_ objects: ResolvedModel) throws {
        self.objects = objects
        var model = ManagedObjectModel {
            Entity(Self.transactionName) {
                Attribute("number", .integer64)
                Attribute("transactionNumber", .integer64)
                Attribute("token", .integer64)
                Attribute("date", .date)
                Attribute("timestamp", .date)
                Attribute("author", .string)
                Attribute("contextName", .string)
                Attribute("processName", .string)
                Attribute("processID", .string)
                Attribute("bundleID", .string)
                Attribute("storeUUID", .string)
                Attribute("storeID", .string)
                ToMany(Self.changesKey, Self.changeName, inverse: "transaction")
            }
            Entity(Self.changeName) {
                Attribute("number", .integer64)
                Attribute("changeID", .integer64)
                Attribute("transactionNumber", .integer64)
                Attribute("kind", .integer16)
                Attribute("changeType", .integer16)
                Attribute("changedEntity", .string)
                ToOne("changedObjectID", Self.objectName)
                ToMany("updatedProperties", Self.propertyName)
                ToOne("transaction", Self.transactionName, inverse: Self.changesKey)
            }
            Entity(Self.objectName) {}
            Entity(Self.propertyName) { Attribute("name", .string) }
        }
        let preserved = Self.preservedAttributes(of: objects)
        if !preserved.isEmpty {
            let composite = CompositeDescription(name: "Tombstone", elements: preserved)
            model.composites.append(composite)
            for index in model.entities.indices where model.entities[index].name == Self.changeName
            {
                model.entities[index].properties.append(
                    .attribute(
                        Attribute("tombstone", composite: composite.name).description))
            }
        }
        layout = try model.layout()
        identity = StoreIdentity(uuid: "", entityNames: layout.entities.map(\.name))
    }

    /// The attributes that are preserved in the history of any entity. One that has several types is left out.
    private static func preservedAttributes(of model: ResolvedModel) -> [AttributeDescription] {
        var types: [String: Set<AttributeType>] = [:]
        for entity in model.entities {
            for slot in entity.slots {
                if let attribute = slot.attribute, attribute.preservesValueInHistoryOnDeletion,
                    attribute.name == slot.name
                {
                    types[slot.name, default: []].insert(attribute.type)
                }
            }
        }
        return types.sorted { $0.key < $1.key }.compactMap { name, types in
            guard types.count == 1, let type = types.first, type != .composite else { return nil }
            return AttributeDescription(name: name, type: type)
        }
    }

    /// Checks what the model cannot.
    fileprivate func check(_ fetch: FetchSpecification) throws {
        guard [Self.transactionName, Self.changeName].contains(fetch.entityName) else {
            throw QuireError(
                .invalidQuery,
                "A fetch request for history must come from PersistentHistoryTransaction.fetchRequest or PersistentHistoryChange.fetchRequest; this one is for “\(fetch.entityName)”.",
                entity: fetch.entityName)
        }
        guard fetch.resultType == .objects, fetch.propertiesToFetch.isEmpty,
            fetch.propertiesToGroupBy.isEmpty, fetch.havingPredicate == nil
        else {
            throw QuireError(
                .invalidQuery,
                "A fetch request for history cannot return dictionaries, identifiers or counts; set the resultType of the PersistentHistoryChangeRequest.",
                entity: fetch.entityName)
        }
    }

    fileprivate func entity(_ name: String) -> ResolvedEntity {
        // The names are those of the model made above.
        layout.entity(named: name) ?? layout.entities[0]
    }

    fileprivate func identifier(_ number: Int64, of entity: ResolvedEntity) -> ManagedObjectID {
        // Numbers of a damaged file may be any.
        ManagedObjectID(
            entityNumber: entity.number,
            primaryKey: min(max(number, 0), ManagedObjectID.maximumPrimaryKey), store: identity)
    }
}

// MARK: - Subjects

/// A transaction as the subject of a predicate.
private struct HistoryTransactionSubject: QuerySubject {
    let transaction: PersistentHistoryTransaction
    let model: HistoryModel
    let resolvedEntity: ResolvedEntity

    init(_ transaction: PersistentHistoryTransaction, _ model: HistoryModel) {
        self.transaction = transaction
        self.model = model
        resolvedEntity = model.entity(HistoryModel.transactionName)
    }

    var queryLayout: ResolvedModel { model.layout }
    var objectID: ManagedObjectID { model.identifier(transaction.number, of: resolvedEntity) }

    func queryValue(forKey key: String) throws -> QueryValue {
        func text(_ text: String?) -> QueryValue { .value(text.map { .string($0) } ?? .null) }
        switch key {
        case "number", "transactionNumber", "token": return .value(.integer(transaction.number))
        case "date", "timestamp": return .value(.date(transaction.date))
        case "author": return text(transaction.author)
        case "contextName": return text(transaction.contextName)
        case "processName", "processID": return text(transaction.processName)
        case "bundleID": return text(transaction.bundleID)
        case "storeUUID", "storeID": return text(transaction.storeUUID)
        case HistoryModel.changesKey:
            return .objects(
                transaction.changes.map { HistoryChangeSubject($0, in: transaction, model) })
        default: throw QuireError.unknownHistoryKey(key)
        }
    }
}

/// A change as the subject of a predicate. Its `SELF`, `objectID` and `entity` are those of the changed object.
private struct HistoryChangeSubject: QuerySubject {
    let change: PersistentHistoryChange
    let transaction: PersistentHistoryTransaction
    let model: HistoryModel

    init(
        _ change: PersistentHistoryChange, in transaction: PersistentHistoryTransaction,
        _ model: HistoryModel
    ) {
        self.change = change
        self.transaction = transaction
        self.model = model
    }

    var queryLayout: ResolvedModel { model.layout }
    var objectID: ManagedObjectID { change.objectID }
    var resolvedEntity: ResolvedEntity {
        model.objects.entity(number: change.objectID.entityNumber)
    }

    func queryValue(forKey key: String) throws -> QueryValue {
        switch key {
        case "number", "changeID": return .value(.integer(change.number))
        case "transactionNumber": return .value(.integer(change.transactionNumber))
        case "kind", "changeType": return .value(.integer(Int64(change.kind.rawValue)))
        case "changedEntity": return .value(.string(resolvedEntity.name))
        case "changedObjectID":
            return .object(
                HistoryObjectSubject(
                    objectID: objectID, resolvedEntity: resolvedEntity, model: model))
        case "updatedProperties":
            return .objects(
                (change.updatedProperties ?? []).enumerated().map { position, name in
                    HistoryPropertySubject(name: name, position: position, model: model)
                })
        case "tombstone": return .value(.composite(change.preservedValues))
        case "transaction": return .object(HistoryTransactionSubject(transaction, model))
        default: throw QuireError.unknownHistoryKey(key)
        }
    }
}

/// A changed object as the value of a key: it has an identifier and an entity, but no properties.
private struct HistoryObjectSubject: QuerySubject {
    let objectID: ManagedObjectID
    let resolvedEntity: ResolvedEntity
    let model: HistoryModel

    var queryLayout: ResolvedModel { model.layout }

    func queryValue(forKey key: String) throws -> QueryValue {
        throw QuireError.unknownHistoryKey(key)
    }
}

/// A changed property: a name.
private struct HistoryPropertySubject: QuerySubject {
    let name: String
    let position: Int
    let model: HistoryModel

    var queryLayout: ResolvedModel { model.layout }
    var resolvedEntity: ResolvedEntity { model.entity(HistoryModel.propertyName) }
    var objectID: ManagedObjectID { model.identifier(Int64(position), of: resolvedEntity) }

    func queryValue(forKey key: String) throws -> QueryValue {
        guard key == "name" else { throw QuireError.unknownHistoryKey(key) }
        return .value(.string(name))
    }
}

extension QuireError {
    fileprivate static func unknownHistoryKey(_ key: String) -> QuireError {
        QuireError(
            .unknownKey, "The history has no property “\(key)”.", subject: .init(property: key))
    }
}

// MARK: - Tokens

extension PersistentHistoryToken: QueryArgument {
    /// The token as a constant, for a comparison with the `token` of a transaction in a fetch request for history.
    public var queryExpression: QueryExpression {
        .constant(
            .composite([
                "numbers": .composite(transactionNumbers.mapValues { .integer($0) }),
                "times": .composite(transactionTimes.mapValues { .double($0) }),
            ]))
    }
}

extension PersistentHistoryChange.Kind: QueryArgument {
    /// The kind's number as a constant.
    public var queryExpression: QueryExpression { .constant(.integer(Int64(rawValue))) }
}

extension FetchSpecification {
    /// The request with its tokens replaced by numbers of transactions.
    fileprivate func mappingTokens(
        _ number: (PersistentHistoryToken) -> Int64
    ) -> FetchSpecification {
        var request = self
        request.predicate = predicate.map { predicate in
            predicate.mappingExpressions { $0.mappingTokens(number) }
        }
        return request
    }
}

extension QueryExpression {
    fileprivate func mappingTokens(_ number: (PersistentHistoryToken) -> Int64) -> QueryExpression {
        if case .constant(.composite(let values)) = self,
            case .composite(let numbers) = values["numbers"],
            case .composite(let times) = values["times"]
        {
            let token = PersistentHistoryToken(
                transactionNumbers: numbers.compactMapValues { value in
                    if case .integer(let number) = value { number } else { nil }
                },
                transactionTimes: times.compactMapValues { value in
                    if case .double(let time) = value { time } else { nil }
                })
            return .constant(.integer(number(token)))
        }
        return mappingParts {
            $0.mappingTokens(number)
        } _: { condition in
            condition.mappingExpressions { $0.mappingTokens(number) }
        }
    }
}
