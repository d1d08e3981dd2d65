extension PersistentStoreCoordinator {
    /// The stores of a coordinator, and what stands for all of them.
    struct Stores {
        private(set) var members: [StoreCombination.Member]
        /// What the coordinator asks: the only store itself, if it keeps objects of all entities.
        private(set) var combined: any PersistentStore
        private let layout: ModelLayout
        private let identity: StoreIdentity

        /// No stores.
        init(layout: ModelLayout, identity: StoreIdentity) {
            self.layout = layout
            self.identity = identity
            members = []
            combined = StoreCombination(members: [], layout: layout, identity: identity)
        }

        /// One store, whose model is the coordinator's.
        init(_ store: any PersistentStore) {
            layout = store.layout
            identity = store.identity
            // The store has been opened with this configuration.
            let numbers = try? layout.entityNumbers(ofConfiguration: store.configurationName)
            members = [
                StoreCombination.Member(
                    store: store, entityNumbers: numbers ?? Set(layout.entities.map(\.number)))
            ]
            combined = store
            if store.configurationName != nil { combine() }
        }

        mutating func add(_ member: StoreCombination.Member) {
            members.append(member)
            combine()
        }

        mutating func remove(_ store: any PersistentStore) -> Bool {
            let count = members.count
            members.removeAll { $0.store === store }
            if members.count < count { combine() }
            return members.count < count
        }

        mutating func replace(_ store: any PersistentStore, with other: any PersistentStore) {
            guard let index = members.firstIndex(where: { $0.store === store }) else { return }
            members[index] = StoreCombination.Member(
                store: other, entityNumbers: members[index].entityNumbers)
            if other.identity === identity, combined === store {
                combined = other
            } else {
                combine()
            }
        }

        private mutating func combine() {
            combined = StoreCombination(members: members, layout: layout, identity: identity)
        }
    }
}
