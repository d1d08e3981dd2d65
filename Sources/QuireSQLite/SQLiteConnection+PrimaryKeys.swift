/// The books about primary keys, which are kept by the numbers of root entities.
extension SQLiteConnection {
    package func greatestPrimaryKey(of entityNumber: Int) throws -> Int64 {
        try integer("SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_ENT = ?", Int64(entityNumber)) ?? 0
    }

    func recordGreatestPrimaryKey(_ key: Int64, of entityNumber: Int) throws {
        try withStatement("UPDATE Z_PRIMARYKEY SET Z_MAX = ? WHERE Z_ENT = ?") {
            try $0.bind(key, at: 1)
            try $0.bind(Int64(entityNumber), at: 2)
            try $0.run()
        }
    }
}
