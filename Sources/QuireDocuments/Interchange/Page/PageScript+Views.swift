extension PageScript {
    /// The views of the document, an entity, an object, the files and a search.
    static let views = #"""
        // Elements

        /** Makes an element. Children are nodes or texts; attributes that are null or false are left out. */
        function make(tag, attributes, ...children) {
            const element = document.createElement(tag);
            for (const [name, value] of Object.entries(attributes ?? {})) {
                if (value === null || value === undefined || value === false) continue;
                element.setAttribute(name, value === true ? "" : value);
            }
            element.append(...children.flat().filter((child) => child !== null && child !== undefined));
            return element;
        }

        function link(address, text, attributes) {
            return make("a", { href: address, ...attributes }, text);
        }

        function objectLink(object) {
            return link(objectAddress(object), make("bdi", null, label(object)));
        }

        function heading(text, ...rest) {
            return make("h1", { tabindex: "-1" }, make("bdi", null, text), ...rest);
        }

        function note(text) {
            return make("span", { class: "note" }, text);
        }

        // Values

        /** A value as it is shown in a table, or in full. */
        function shown(value, property, isFull) {
            if (value === null || value === undefined) return noValue();
            if (property.kind === "one") return referenceLink(value);
            if (property.kind === "many") return value.length ? countText(value.length, "object") : noValue("none");
            if (value.unreadable !== undefined) {
                return make("span", { class: "problem" }, isFull ? `unreadable: ${value.unreadable}` : "unreadable");
            }
            if (value.bytes !== undefined) return bytesNode(value, property, isFull);
            if (value === "") return note("empty text");
            if (property.form === "date") return dateNode(value);
            const text = String(value);
            return make("bdi", isFull ? { class: "text" } : null, isFull ? text : shortened(text, 120));
        }

        function noValue(word = "no value") {
            return make("span", { class: "note" },
                make("span", { "aria-hidden": "true" }, "–"), make("span", { class: "spoken" }, word));
        }

        function referenceLink(id) {
            const object = find(id);
            return object ? objectLink(object) : make("span", { class: "problem" }, `${id} (not in this document)`);
        }

        const localTime = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

        /** A date in UTC, as it is stored; its title is the local time. */
        function dateNode(value) {
            const date = new Date(value);
            if (Number.isNaN(date.getTime())) return make("span", null, value);
            return make("time", { datetime: value, title: `${localTime.format(date)} (local time)` }, value);
        }

        const pictureTypes = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

        function bytesNode(value, property, isFull) {
            const size = make("span", { class: "note", title: countText(value.bytes, "byte") }, sizeText(value.bytes));
            const data = value.picture && document.getElementById(`picture-${value.picture}`);
            if (!data || !pictureTypes.has(value.type)) return size;
            const picture = make("img", {
                src: `data:${value.type};base64,${data.textContent}`, alt: isFull ? property.name : "",
                class: isFull ? "picture" : "thumbnail", loading: "lazy", decoding: "async",
            });
            return isFull
                ? make("figure", null, picture, make("figcaption", null, `${value.type.slice(6).toUpperCase()}, `, size))
                : make("span", null, picture, make("span", { class: "spoken" }, `picture, ${sizeText(value.bytes)}`));
        }

        // Addresses: #/ENTITY, #/ENTITY/KEY, #/model, #/files, #/search/TEXT. An entity that is called like one of the last three
        // has an equals sign before its name.

        const reservedNames = new Set(["model", "files", "search"]);

        function address(parts, query) {
            const options = new URLSearchParams(Object.entries(query ?? {}).filter(([, value]) => value)).toString();
            return "#/" + parts.map(encodeURIComponent).join("/") + (options ? "?" + options : "");
        }

        function entityAddress(entity, query) {
            return address([(reservedNames.has(entity.name) ? "=" : "") + entity.name], query);
        }

        function objectAddress(object) {
            return `${entityAddress(object.entity)}/${encodeURIComponent(object.key)}`;
        }

        function readAddress() {
            const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
            let parts;
            try {
                parts = path.split("/").filter(Boolean).map(decodeURIComponent);
            } catch {
                parts = ["", ""];
            }
            return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
        }

        /** The view of an address: its key, and how to build it. Of views of equal keys only the content is updated. */
        function viewOf({ parts }) {
            if (parts.length === 0) return ["", homeView];
            if (parts[0] === "search") return ["search", searchView];
            if (parts.length === 1 && parts[0] === "model") return ["model", modelView];
            if (parts.length === 1 && parts[0] === "files") return ["files", filesView];
            const entity = entities.get(parts[0].replace(/^=/, ""));
            if (entity && parts.length === 1) return [`entity ${entity.name}`, () => entityView(entity)];
            const object = parts.length === 2 ? findObject(entity, parts[1]) : undefined;
            if (object) return [`object ${identifier(object)}`, () => objectView(object)];
            return ["missing", missingView];
        }

        // The document, and addresses of nothing

        function homeView() {
            const objects = page.entities.reduce((sum, entity) => sum + entity.count, 0);
            const facts = [countText(objects, "object"), countText(page.entities.length, "entity")];
            if (page.files.length) facts.push(countText(page.files.length, "file"));
            const rows = page.entities.map((entity) => make("tr", null,
                make("th", { scope: "row", class: `depth-${Math.min(entity.depth, 6)}` },
                    link(entityAddress(entity), entity.name), entity.abstract ? badge("abstract") : null),
                make("td", { class: "number" }, numberText(totalCount(entity))),
                make("td", { class: "wide" }, propertyNames(entity, (property) => property.kind === "attribute")),
                make("td", { class: "wide" }, propertyNames(entity, (property) => property.kind !== "attribute"))));
            return {
                title: page.title,
                nodes: [
                    heading(page.title), make("p", { class: "facts" }, facts.join(" · ")),
                    table("Entities", ["Entity", "Objects", "Attributes", "Relationships"], rows, { 1: "number" }),
                    picturesNote(),
                ],
            };
        }

        function propertyNames(entity, condition) {
            const names = entity.properties.filter((property) => property.own && condition(property))
                .map((property) => property.name);
            return names.length ? names.join(", ") : noValue("none");
        }

        function picturesNote() {
            if (!page.omittedPictures) return null;
            return make("p", { class: "note" },
                `${countText(page.omittedPictures, "picture")} ${page.omittedPictures === 1 ? "is" : "are"} too large for this page and shown by size.`);
        }

        function badge(text) {
            return make("span", { class: "badge" }, text);
        }

        /** A table that can be scrolled sideways, also with the keyboard. */
        function table(caption, titles, rows, classes = {}) {
            return scrolling(caption, make("table", null, make("caption", { class: "spoken" }, caption),
                make("thead", null, make("tr", null,
                    titles.map((title, index) => make("th", { scope: "col", class: classes[index] }, title)))),
                make("tbody", null, rows)));
        }

        function scrolling(name, content) {
            return make("div", { class: "scroll", role: "group", "aria-label": name, tabindex: "0" }, content);
        }

        function missingView() {
            return {
                title: "Not found",
                nodes: [heading("Not found"), make("p", null, "This address does not exist in this document. ", link("#/", "Show all entities"), ".")],
            };
        }

        function filesView() {
            const rows = page.files.map((file) => make("tr", null,
                make("th", { scope: "row" }, make("bdi", null, file.path)),
                make("td", { class: "number", title: countText(file.size, "byte") }, sizeText(file.size))));
            return {
                title: "Files",
                nodes: [
                    heading("Files"),
                    make("p", { class: "facts" }, "Additional content of the document. The files themselves are not part of this page."),
                    page.files.length ? table("Files", ["Path", "Size"], rows, { 1: "number" }) : make("p", null, "No files."),
                ],
            };
        }

        // The objects of an entity

        const pageSize = 100;

        function entityView(entity) {
            const all = allObjects(entity);
            const columns = tableColumns(entity);
            const filter = make("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: "false" });
            const count = make("p", { class: "count" });
            const body = make("tbody");
            const pager = make("nav", { class: "pager", "aria-label": "Pages" });
            const headers = columns.map((column) => sortHeader(entity, column));
            let found = { key: null, objects: all };

            filter.addEventListener("input", delayed(() => {
                const { query } = readAddress();
                replaceAddress(entityAddress(entity, { ...query, q: filter.value, page: "" }));
            }));

            function update(query) {
                if (filter.value.trim() !== (query.q ?? "").trim()) filter.value = query.q ?? "";
                const column = columns.find((column) => column.name === query.sort);
                const key = JSON.stringify([query.q, query.sort, query.down]);
                if (found.key !== key) {
                    const words = terms(query.q ?? "");
                    const objects = words.length ? all.filter((object) => matches(filterText(object), words)) : all;
                    found = { key, objects: column ? sorted(objects, column, query.down) : objects };
                    count.textContent = words.length
                        ? `${numberText(found.objects.length)} of ${countText(all.length, "object")}`
                        : countText(all.length, "object");
                    if (words.length) announce(count.textContent);
                }
                for (const header of headers) header.update(query);
                const pages = Math.max(1, Math.ceil(found.objects.length / pageSize));
                const number = Math.min(Math.max(1, Number(query.page) || 1), pages);
                const start = (number - 1) * pageSize;
                body.replaceChildren(...found.objects.slice(start, start + pageSize).map((object) =>
                    make("tr", null, columns.map((column, index) => objectCell(object, column, index)))));
                fillPager(pager, number, pages, (target) => entityAddress(entity, { ...query, page: target > 1 ? String(target) : "" }));
            }

            return {
                title: entity.name, update,
                nodes: [
                    heading(entity.name, entity.abstract ? badge("abstract") : null), kinship(entity),
                    make("div", { class: "tools" },
                        make("label", { for: "filter" }, "Filter"), filter, count),
                    scrolling(`Objects of ${entity.name}`, make("table", { class: "objects" },
                        make("caption", { class: "spoken" }, `Objects of ${entity.name}; the buttons in the first row sort`),
                        make("thead", null, make("tr", null, headers.map((header) => header.element))), body)),
                    pager,
                ],
            };
        }

        /** The columns of an entity's table: what names the objects comes first. */
        function tableColumns(entity) {
            const first = labelProperty(entity) ?? { name: "Object", kind: "label" };
            const columns = [first, ...entity.columns.filter((property) => property !== first)];
            if (entity.children.length) columns.splice(1, 0, { name: "Entity", kind: "entity" });
            return columns;
        }

        function objectCell(object, column, index) {
            if (column.kind === "entity") return make("td", null, object.entity.name);
            if (index === 0) return make("th", { scope: "row" }, objectLink(object));
            const isNumber = column.form === "number" || column.kind === "many";
            const value = object.values[column.column];
            return make("td", { class: isNumber ? "number" : null },
                column.kind === "many" && value?.length ? numberText(value.length) : shown(value, column, false));
        }

        function sortHeader(entity, column) {
            if (!column.column) {
                return { element: make("th", { scope: "col" }, column.name), update() {} };
            }
            const arrow = make("span", { class: "arrow", "aria-hidden": "true" });
            const button = make("button", { type: "button" }, column.name, arrow);
            const isNumber = column.form === "number" || column.kind === "many";
            const element = make("th", { scope: "col", class: isNumber ? "number" : null }, button);
            button.addEventListener("click", () => {
                const { query } = readAddress();
                const isAscending = query.sort === column.name && !query.down;
                replaceAddress(entityAddress(entity, { ...query, sort: column.name, down: isAscending ? "1" : "", page: "" }));
                announce(`Sorted by ${column.name}, ${isAscending ? "descending" : "ascending"}`);
            });
            function update(query) {
                const isSorted = query.sort === column.name;
                if (isSorted) element.setAttribute("aria-sort", query.down ? "descending" : "ascending");
                else element.removeAttribute("aria-sort");
                arrow.textContent = isSorted ? (query.down ? "▼" : "▲") : "";
            }
            return { element, update };
        }

        function kinship(entity) {
            const parts = [];
            if (entity.parent) parts.push("Inherits from ", link(entityAddress(entities.get(entity.parent)), entity.parent), ". ");
            if (entity.children.length) {
                parts.push("With the objects of ");
                descendants(entity).forEach((child, index) => {
                    parts.push(index ? ", " : "", link(entityAddress(child), child.name), ` (${numberText(child.count)})`);
                });
                parts.push(".");
            }
            return parts.length ? make("p", { class: "facts" }, parts) : null;
        }

        function fillPager(pager, number, pages, addressOf) {
            const focused = pager.contains(document.activeElement) ? document.activeElement.textContent : null;
            pager.hidden = pages === 1;
            const step = (text, target) => target >= 1 && target <= pages && target !== number
                ? link(addressOf(target), text, { class: "step" })
                : make("span", { class: "step off", "aria-disabled": "true" }, text);
            pager.replaceChildren(
                step("First", 1), step("Previous", number - 1),
                make("span", null, `Page ${numberText(number)} of ${numberText(pages)}`),
                step("Next", number + 1), step("Last", pages));
            if (focused === null) return;
            // The focus stays where it was, or goes to the other direction at an end.
            const links = [...pager.querySelectorAll("a")];
            (links.find((anchor) => anchor.textContent === focused) ?? links[0])?.focus({ preventScroll: true });
            announce(`Page ${numberText(number)} of ${numberText(pages)}`);
        }

        // One object

        const listSize = 50;

        function objectView(object) {
            const entity = object.entity;
            const siblings = ownObjects(entity);
            const position = siblings.indexOf(object);
            const step = (text, sibling) => sibling
                ? link(objectAddress(sibling), text, { class: "step" })
                : make("span", { class: "step off", "aria-disabled": "true" }, text);
            const properties = entity.columns.filter((property) => property.kind !== "many");
            const list = make("dl", null, properties.flatMap((property) => [
                make("dt", null, property.name), make("dd", null, shown(object.values[property.column], property, true)),
            ]));
            const many = entity.columns.filter((property) => property.kind === "many");
            return {
                title: label(object),
                nodes: [
                    make("div", { class: "trail" },
                        make("p", { class: "facts" }, link(entityAddress(entity), entity.name), ` › ${object.key}`),
                        make("nav", { class: "pager", "aria-label": `Objects of ${entity.name}` },
                            step("Previous", siblings[position - 1]),
                            make("span", null, `${numberText(position + 1)} of ${numberText(siblings.length)}`),
                            step("Next", siblings[position + 1]))),
                    heading(label(object)), list,
                    many.map((property) => membersSection(property.name, object.values[property.column] ?? [], property.ordered)),
                    referrers(object).map(([name, ids]) => membersSection(name, ids, false)),
                ],
            };
        }

        function membersSection(name, ids, isOrdered) {
            const list = make(isOrdered ? "ol" : "ul", { class: "members" });
            const add = (from, to) => list.append(...ids.slice(from, to).map((id) => make("li", null, referenceLink(id))));
            add(0, listSize);
            const more = ids.length > listSize
                ? make("button", { type: "button" }, `Show all ${numberText(ids.length)}`) : null;
            more?.addEventListener("click", () => {
                add(listSize, ids.length);
                more.remove();
                list.children[listSize].querySelector("a")?.focus();
            });
            return make("section", null,
                make("h2", null, name, " ", note(numberText(ids.length) + (isOrdered ? ", in order" : ""))),
                ids.length ? list : make("p", null, noValue("none")), more);
        }

        /** The objects that refer to an object by relationships without an inverse, which it has no list of. */
        function referrers(object) {
            const kinds = new Set();
            for (let kind = object.entity; kind; kind = entities.get(kind.parent)) kinds.add(kind.name);
            const id = identifier(object);
            return page.entities.flatMap((entity) => entity.columns
                .filter((property) => property.destination && !property.inverse && kinds.has(property.destination))
                .map((property) => [
                    `Referred to by ${entity.name}.${property.name}`,
                    ownObjects(entity).filter((other) => [other.values[property.column]].flat().includes(id)).map(identifier),
                ])).filter(([, ids]) => ids.length);
        }

        // Search

        const resultSize = 10;

        function searchView() {
            const count = make("p", { class: "facts" });
            const results = make("div");
            return {
                title: "Search", nodes: [heading("Search"), count, results],
                update() {
                    const text = readAddress().parts.slice(1).join("/");
                    const field = document.getElementById("find");
                    if (field.value.trim() !== text.trim()) field.value = text;
                    const words = terms(text);
                    const found = words.length
                        ? page.entities.map((entity) => [entity, ownObjects(entity).filter((object) => matches(searchText(object), words))])
                            .filter(([, objects]) => objects.length)
                        : [];
                    const total = found.reduce((sum, [, objects]) => sum + objects.length, 0);
                    count.textContent = words.length ? `${total ? countText(total, "object") : "No objects"} with “${text.trim()}”` : "Type a text to search for.";
                    announce(count.textContent);
                    results.replaceChildren(...found.map(([entity, objects]) => resultSection(entity, objects, text, words)));
                },
            };
        }

        function resultSection(entity, objects, text, words) {
            return make("section", null,
                make("h2", null, entity.name, " ", note(numberText(objects.length))),
                make("ul", { class: "results" }, objects.slice(0, resultSize).map((object) =>
                    make("li", null, objectLink(object), excerpt(object, words)))),
                objects.length > resultSize
                    ? make("p", null, link(entityAddress(entity, { q: text.trim() }), `All ${numberText(objects.length)} of ${entity.name}`)) : null);
        }

        /** Where an object's texts have the first of the words, unless it is in the label. */
        function excerpt(object, words) {
            if (folded(label(object)).includes(words[0])) return null;
            for (const property of object.entity.attributes) {
                const text = plainText(object.values[property.column], property);
                const plain = folded(text);
                const start = plain.indexOf(words[0]);
                if (start < 0) continue;
                const isAligned = plain.length === text.length;
                const from = isAligned ? Math.max(0, start - 40) : 0;
                const end = isAligned ? start + words[0].length : 0;
                return make("p", { class: "note" }, `${property.name}: `, make("bdi", null, from ? "…" : "",
                    text.slice(from, isAligned ? start : 0),
                    isAligned ? make("mark", null, text.slice(start, end)) : "", shortened(text.slice(end), 80)));
            }
            return null;
        }
        """#
}
