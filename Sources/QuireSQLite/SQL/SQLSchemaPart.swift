/// Something in a store that can be made and dropped without losing anything of the objects: an index, or a table or
/// trigger that keeps what is computed from them.
package struct SQLSchemaPart: Sendable, Hashable {
    /// What it is, as `sqlite_schema` has it.
    package enum Kind: String, Sendable {
        case index, table, trigger
    }

    /// Columns of a table.
    package struct Unique: Sendable, Hashable {
        let table: String
        let columns: [String]
    }

    package let kind: Kind
    package let name: String
    /// The statement that makes it.
    let sql: String
    /// The table and columns whose values it demands to be unique, if it does.
    package var unique: Unique?
    /// The statement that computes what it keeps from objects that are there already. Parts may share one.
    package var filling: String?
}
