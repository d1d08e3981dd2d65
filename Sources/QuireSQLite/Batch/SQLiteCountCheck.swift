internal import QuireModel
internal import QuireStore

/// Finds objects that a batch request has left with too few or too many objects in a to-many relationship. They are
/// noted in a temporary table, which may grow larger than memory.
struct SQLiteCountCheck {
    let store: SQLiteStore
    let connection: SQLiteConnection

    /// The table: the number of the relationship's entity in the model, the relationship's position, the object.
    static let table = "temp.QUIRE_OWNERS"

    /// Makes the table, empty.
    func begin() throws {
        try connection.execute(
            """
            CREATE TABLE IF NOT EXISTS \(Self.table) \
            (Z_ENT INTEGER, Z_RELATIONSHIP INTEGER, Z_PK INTEGER, \
            PRIMARY KEY (Z_ENT, Z_RELATIONSHIP, Z_PK)) WITHOUT ROWID; \
            DELETE FROM \(Self.table)
            """)
    }

    /// Has an object checked.
    func note(_ owner: ManagedObjectID, _ relationship: EntityLayout.Relationship) throws {
        try connection.withStatement("INSERT OR IGNORE INTO \(Self.table) VALUES (?, ?, ?)") {
            try $0.bind(Int64(relationship.ownerNumber), at: 1)
            try $0.bind(Int64(relationship.index), at: 2)
            try $0.bind(owner.primaryKey, at: 3)
            try $0.run()
        }
    }

    /// Checks what was noted, and empties the table.
    ///
    /// - Throws: ``QuireError`` with code `validation` for the first object that does not have as many as it must.
    func finish() throws {
        let noted = try connection.withStatement(
            "SELECT DISTINCT Z_ENT, Z_RELATIONSHIP FROM \(Self.table)"
        ) { statement in
            var noted: [(entity: Int, relationship: Int)] = []
            while try statement.step() {
                noted.append((Int(statement.integer(0)), Int(statement.integer(1))))
            }
            return noted
        }
        for (number, index) in noted {
            let entity = store.layout.entity(number: number)
            try check(entity.relationships[index], of: entity)
        }
        try connection.execute("DELETE FROM \(Self.table)")
    }

    private func check(_ relationship: EntityLayout.Relationship, of entity: EntityLayout) throws {
        let members: String
        switch store.schema.toMany(relationship, of: entity) {
        case .nowhere: return
        case .foreignKey(let key):
            members =
                "\(SQLName.quoted(key.tableName)) d WHERE d.\(SQLName.quoted(key.column)) = o.Z_PK"
        case .join(let join):
            members =
                "\(SQLName.quoted(join.tableName)) d WHERE d.\(SQLName.quoted(join.sourceColumn)) = o.Z_PK"
        }
        let description = relationship.description
        let least = max(description.minimumCount, 1)
        var rules = ["(found > 0 AND found < \(least))"]
        if !description.isOptional { rules.append("found = 0") }
        if description.maximumCount > 0 { rules.append("found > \(description.maximumCount)") }
        let table = SQLName.quoted(store.schema.entity(entity).tableName)
        try connection.withStatement(
            """
            SELECT * FROM (SELECT o.Z_PK, t.Z_ENT, (SELECT count(*) FROM \(members)) AS found \
            FROM \(Self.table) o CROSS JOIN \(table) t ON t.Z_PK = o.Z_PK \
            WHERE o.Z_ENT = ?1 AND o.Z_RELATIONSHIP = ?2) WHERE \(rules.joined(separator: " OR ")) LIMIT 1
            """
        ) { statement in
            try statement.bind(Int64(relationship.ownerNumber), at: 1)
            try statement.bind(Int64(relationship.index), at: 2)
            guard try statement.step() else { return }
            let id = ManagedObjectID(
                entityNumber: store.schema.modelNumber(ofStoreNumber: statement.integer(1))
                    ?? entity.number, primaryKey: statement.integer(0), store: store.identity)
            throw relationship.countViolation(of: id, count: Int(statement.integer(2)))
        }
    }
}
