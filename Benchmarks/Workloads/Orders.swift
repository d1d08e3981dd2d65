import CSQLite
import Foundation
import GRDB
import Quire
import QuireSQLite

/// An order of the Northwind database: the table that the test suite of Lighter reads, in which bindings written by hand for
/// the C API are the fastest.
private struct Order {
    var id: Int64
    var customer: String
    var employee: Int64
    var ordered: String
    var required: String
    var shipped: String
    var shipper: Int64
    var freight: Double
    var name: String
    var address: String
    var city: String
    var region: String
    var postalCode: String
    var country: String

    static let columns = """
        id, customer, employee, ordered, required, shipped, shipper, freight, name, address, city, region, postalCode, country
        """
    static let schema = """
        CREATE TABLE orders (
            id INTEGER PRIMARY KEY, customer TEXT, employee INTEGER, ordered TEXT, required TEXT, shipped TEXT,
            shipper INTEGER, freight REAL, name TEXT, address TEXT, city TEXT, region TEXT, postalCode TEXT, country TEXT);
        """

    @inline(__always)
    func add(to sum: inout Checksum) {
        sum.count += 1
        sum.ratings &+= id &+ employee &+ shipper
        sum.prices += freight
        let dates = ordered.utf8.count + required.utf8.count + shipped.utf8.count
        let place = city.utf8.count + region.utf8.count + postalCode.utf8.count
        sum.bodyBytes += customer.utf8.count + dates + name.utf8.count + address.utf8.count
        sum.bodyBytes += place + country.utf8.count
    }
}

extension Order {
    /// One that the suite's database might have.
    init(number: Int) {
        func date(_ days: Int) -> String {
            let day = number + days
            return "\(2012 + day / 5_000)-\(10 + day % 3)-\(10 + day % 18) 10:51:46"
        }
        id = Int64(number) + 1
        customer = "CUST\(number % 93)"
        employee = Int64(number % 9) + 1
        (ordered, required, shipped) = (date(0), date(28), date(9))
        shipper = Int64(number % 3) + 1
        freight = Double(number % 4_000) * 0.25
        name = "Company no. \(number % 93)"
        address = "\(number % 200) Rue de l’Abbaye"
        city = "City \(number % 70)"
        region = number % 2 == 0 ? "Western Europe" : "South America"
        postalCode = "\(10_000 + number % 90_000)"
        country = "Country \(number % 21)"
    }
}

extension Order: FetchableRecord {
    init(row: Row) {
        (id, customer, employee, ordered) = (row[0], row[1], row[2], row[3])
        (required, shipped, shipper, freight) = (row[4], row[5], row[6], row[7])
        (name, address, city, region) = (row[8], row[9], row[10], row[11])
        (postalCode, country) = (row[12], row[13])
    }
}

/// What reads the orders of one engine.
private final class OrderReader {
    let kind: EngineKind
    let read: (Stopwatch) throws -> Checksum
    let close: () throws -> Void

    init(_ kind: EngineKind, at path: String, _ orders: [Order]) throws {
        self.kind = kind
        switch kind {
        case .plain:
            let engine = try PlainEngine.create(at: path, schema: Order.schema)
            try Self.insert(orders, with: engine)
            read = { try Self.readPlainly(engine, $0) }
            close = { try engine.close() }
        case .grdb:
            let plain = try PlainEngine.create(at: path, schema: Order.schema)
            try Self.insert(orders, with: plain)
            try plain.close()
            let engine = try GRDBEngine.open(at: path)
            read = { stopwatch in
                stopwatch.start()
                defer { stopwatch.stop() }
                let orders = try engine.writer.read {
                    try Order.fetchAll($0, sql: "SELECT \(Order.columns) FROM orders")
                }
                var sum = Checksum()
                for order in orders { order.add(to: &sum) }
                return sum
            }
            close = { try engine.close() }
        case .quire:
            let store = try SQLiteStore.create(at: path, model: Self.model)
            let coordinator = PersistentStoreCoordinator(store: store)
            try Self.insert(orders, in: coordinator)
            let slots = try Self.slots(coordinator)
            read = { try Self.readObjects(coordinator, slots, $0) }
            close = { try coordinator.close() }
        }
    }

    private static func insert(_ orders: [Order], with engine: PlainEngine) throws {
        let statement = try engine.statement(
            "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        func bind(_ text: String, _ index: Int32) {
            sqlite3_bind_text(
                statement, index, text, -1, unsafeBitCast(-1, to: sqlite3_destructor_type.self))
        }
        try engine.execute("BEGIN IMMEDIATE")
        for order in orders {
            sqlite3_bind_int64(statement, 1, order.id)
            bind(order.customer, 2)
            sqlite3_bind_int64(statement, 3, order.employee)
            bind(order.ordered, 4)
            bind(order.required, 5)
            bind(order.shipped, 6)
            sqlite3_bind_int64(statement, 7, order.shipper)
            sqlite3_bind_double(statement, 8, order.freight)
            let rest = [
                order.name, order.address, order.city, order.region, order.postalCode,
                order.country,
            ]
            for (index, text) in rest.enumerated() { bind(text, Int32(index) + 9) }
            try engine.run(statement)
        }
        try engine.execute("COMMIT")
    }

    private static func readPlainly(
        _ engine: PlainEngine, _ stopwatch: Stopwatch
    ) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        let row = try engine.statement("SELECT \(Order.columns) FROM orders")
        func text(_ column: Int32) -> String {
            guard let bytes = sqlite3_column_text(row, column) else { return "" }
            let count = Int(sqlite3_column_bytes(row, column))
            return String(
                decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
        }
        var orders: [Order] = []
        while try engine.step(row) {
            orders.append(
                Order(
                    id: sqlite3_column_int64(row, 0), customer: text(1),
                    employee: sqlite3_column_int64(row, 2), ordered: text(3), required: text(4),
                    shipped: text(5), shipper: sqlite3_column_int64(row, 6),
                    freight: sqlite3_column_double(row, 7), name: text(8), address: text(9),
                    city: text(10), region: text(11), postalCode: text(12), country: text(13)))
        }
        var sum = Checksum()
        for order in orders { order.add(to: &sum) }
        return sum
    }

    // MARK: - Objects

    private static let attributes: [(name: String, type: AttributeType)] = [
        ("id", .integer64), ("customer", .string), ("employee", .integer64), ("ordered", .string),
        ("required", .string), ("shipped", .string), ("shipper", .integer64),
        ("freight", .double), ("name", .string), ("address", .string), ("city", .string),
        ("region", .string), ("postalCode", .string), ("country", .string),
    ]

    private static var model: ManagedObjectModel {
        var entity = EntityDescription(name: "Order")
        entity.properties = attributes.map {
            .attribute(AttributeDescription(name: $0.name, type: $0.type))
        }
        return ManagedObjectModel(entities: [entity])
    }

    /// The places of the attributes, in their order.
    private static func slots(_ coordinator: PersistentStoreCoordinator) throws -> [Int] {
        let entity = try coordinator.layout.requireEntity(named: "Order")
        return attributes.compactMap { entity.slot(named: $0.name) }
    }

    private static func insert(
        _ orders: [Order], in coordinator: PersistentStoreCoordinator
    ) throws {
        let slots = try slots(coordinator)
        try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            for order in orders {
                let object = try context.insertObject(entityName: "Order")
                let values: [AttributeValue] = [
                    .integer(order.id), .string(order.customer), .integer(order.employee),
                    .string(order.ordered), .string(order.required), .string(order.shipped),
                    .integer(order.shipper), .double(order.freight), .string(order.name),
                    .string(order.address), .string(order.city), .string(order.region),
                    .string(order.postalCode), .string(order.country),
                ]
                for (slot, value) in zip(slots, values) { try object.setValue(value, at: slot) }
            }
            try context.save()
        }
    }

    private static func readObjects(
        _ coordinator: PersistentStoreCoordinator, _ slots: [Int], _ stopwatch: Stopwatch
    ) throws -> Checksum {
        stopwatch.start()
        defer { stopwatch.stop() }
        return try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
            var sum = Checksum()
            for object in try context.fetch(FetchRequest("Order")) {
                func text(_ index: Int) -> String { object.string(at: slots[index]) ?? "" }
                func integer(_ index: Int) -> Int64 { object.integer(at: slots[index]) ?? 0 }
                let order = Order(
                    id: integer(0), customer: text(1), employee: integer(2), ordered: text(3),
                    required: text(4), shipped: text(5), shipper: integer(6),
                    freight: object.double(at: slots[7]) ?? 0, name: text(8), address: text(9),
                    city: text(10), region: text(11), postalCode: text(12), country: text(13))
                order.add(to: &sum)
            }
            return sum
        }
    }
}

extension Run {
    /// Reads all orders, again and again.
    func measureOrders(progress: (String) -> Void) throws -> [Comparison] {
        progress("orders")
        let orders = (0..<16_282).map { Order(number: $0) }
        let readers = try options.engines.map {
            try OrderReader($0, at: "\(folder)/orders-\($0.rawValue).sqlite", orders)
        }
        let stopwatches = readers.map { _ in Stopwatch() }
        for round in 0..<2 + 31 {
            var sums: [Checksum] = []
            for (reader, stopwatch) in zip(readers, stopwatches) {
                if round == 2 { stopwatch.removeSamples() }
                sums.append(try reader.read(stopwatch))
            }
            if sums.contains(where: { $0 != sums[0] }) {
                throw BenchmarkFailure("The engines have not read the same orders.")
            }
        }
        var medians: [EngineKind: Double] = [:]
        for (reader, stopwatch) in zip(readers, stopwatches) {
            medians[reader.kind] = stopwatch.median
            try reader.close()
        }
        var row = Comparison(
            "O1", "read 16,282 orders", unit: "ms", quire: medians[.quire],
            others: Comparison.others(medians), ratio: 1.5)
        // SQLiteData's README: 7.183 s, 8.059 s, 8.511 s and 18.819 s. Lighter's own README: 6.629 s, 7.927 s and about 12 s.
        row.note = """
            Published ratios to generated C bindings, measured on other machines: Lighter 1.12 ×, SQLiteData 1.18 ×,
            GRDB by hand 2.62 × (SQLiteData's README); Lighter 1.20 ×, GRDB by hand 1.8 × (Lighter's README).
            """
        return [row]
    }
}
