extension PageScript {
    /// Addresses and focus, the list of entities, and the beginning of it all.
    static let start = #"""
        // Navigation

        const main = document.getElementById("main");
        const navigation = document.getElementById("navigation");
        const scrollPositions = new Map();
        let current = { key: null, hash: null };
        let isFollowingLink = false;

        /** Tells a screen reader. */
        function announce(text) {
            document.getElementById("status").textContent = text;
        }

        function delayed(action) {
            let timer;
            return () => {
                clearTimeout(timer);
                timer = setTimeout(action, 150);
            };
        }

        /** Changes the address without an entry in the history. */
        function replaceAddress(address) {
            if (address !== location.hash) location.replace(address);
        }

        function show() {
            const place = readAddress();
            const [key, build] = viewOf(place);
            const isFirst = current.hash === null;
            const isNew = key !== current.key;
            if (isNew) {
                const view = build();
                main.replaceChildren(...view.nodes.flat().filter(Boolean));
                document.title = view.title === page.title ? page.title : `${view.title} – ${page.title}`;
                current = { key, update: view.update };
                if (key !== "search") document.getElementById("find").value = "";
                markCurrent(place);
                setMenu(false);
            }
            current.update?.(place.query);
            current.hash = location.hash;
            if (isFirst) return;
            if (isNew && !(key === "search" && document.activeElement === document.getElementById("find"))) {
                main.querySelector("h1").focus({ preventScroll: true });
            }
            if (isNew || isFollowingLink) {
                window.scrollTo(0, isFollowingLink ? 0 : scrollPositions.get(location.hash) ?? 0);
            }
            isFollowingLink = false;
        }

        function fillNavigation() {
            const entry = (address, text, count, depth = 0) => make("li", { class: `depth-${Math.min(depth, 6)}` },
                link(address, [make("span", null, text), count === null ? null : make("span", { class: "note" }, numberText(count))]));
            navigation.append(
                make("ul", null, entry("#/", "Overview", null), entry("#/model", "Model", null),
                    page.files.length ? entry("#/files", "Files", page.files.length) : null),
                make("h2", null, "Entities"),
                make("ul", null, page.entities.map((entity) => entry(entityAddress(entity), entity.name, totalCount(entity), entity.depth))));
        }

        function markCurrent({ parts }) {
            const target = parts.length ? address(parts.slice(0, 1)) : "#/";
            for (const anchor of navigation.querySelectorAll("a")) {
                const isCurrent = anchor.getAttribute("href") === target;
                if (isCurrent) anchor.setAttribute("aria-current", parts.length > 1 ? "true" : "page");
                else anchor.removeAttribute("aria-current");
            }
        }

        function setMenu(isOpen) {
            navigation.classList.toggle("open", isOpen);
            document.getElementById("menu").setAttribute("aria-expanded", String(isOpen));
        }

        function start() {
            fillNavigation();
            const field = document.getElementById("find");
            const search = () => {
                const target = address(["search", field.value]);
                if (current.key === "search") replaceAddress(target);
                else if (field.value.trim()) location.hash = target;
            };
            field.addEventListener("input", delayed(search));
            document.getElementById("search").addEventListener("submit", (event) => {
                event.preventDefault();
                search();
                main.querySelector("h1").focus();
            });
            document.getElementById("menu").addEventListener("click", () => setMenu(!navigation.classList.contains("open")));
            document.querySelector(".skip").addEventListener("click", (event) => {
                event.preventDefault();
                main.querySelector("h1").focus();
            });
            document.addEventListener("click", (event) => {
                if (!event.target.closest("a[href]")) return;
                isFollowingLink = true;
                scrollPositions.set(location.hash, window.scrollY);
            });
            window.addEventListener("hashchange", show);
            show();
        }

        start();
        """#
}
