// @ts-check
// Makes src/types.ts from the JSON Schema of the API, which the tests of crates/daemon keep what the types there say.
//
//   npm run types:generate     writes src/types.ts
//   npm run types:fresh        fails when it is not what the schema gives

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const SCHEMA = new URL("../../docs/schema/api.json", import.meta.url);
const TYPES = new URL("../src/types.ts", import.meta.url);
const BANNER = "// Made by dev/types.mjs from docs/schema/api.json; do not edit. `npm run types:generate` makes it anew.\n";

/** @typedef {Record<string, any>} Schema */

/**
 * The generator knows neither words beside a reference nor tuples of draft 2020-12, and gives a name to everything with
 * a title. @param {any} schema @returns {any}
 */
function plain(schema) {
  if (Array.isArray(schema)) return schema.map(plain);
  if (typeof schema !== "object" || schema === null) return schema;
  // What may be anything is only described.
  if (Object.keys(schema).length === 1 && typeof schema.description === "string") return { ...schema, tsType: "unknown" };
  const { $ref, prefixItems, const: only, oneOf, ...rest } = schema;
  /** @type {Schema} */
  const known = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, plain(value)]));
  if (prefixItems) Object.assign(known, { items: prefixItems.map(plain) });
  if (only !== undefined) Object.assign(known, { enum: [only] });
  // Words that are described one by one are one choice.
  if (oneOf?.every((/** @type {Schema} */ one) => one.type === "string" && (one.const ?? one.enum))) {
    return { ...known, type: "string", enum: oneOf.flatMap((/** @type {Schema} */ one) => one.enum ?? [one.const]) };
  }
  if (oneOf) known.oneOf = plain(oneOf);
  if ($ref === undefined) return known;
  const { description, ...others } = known;
  if (Object.keys(others).length === 0) return { $ref };
  return { ...(description ? { description } : {}), allOf: [{ $ref }, others] };
}

/** The page reads the number of a time; the text beside it is for others. @param {any} schema @returns {any} */
function withoutTexts(schema) {
  if (Array.isArray(schema)) return schema.map(withoutTexts);
  if (typeof schema !== "object" || schema === null) return schema;
  const { properties, required, ...rest } = schema;
  const isText = (/** @type {string} */ name) => properties?.[name]?.format === "date-time" && `${name}_ns` in properties;
  /** @type {Schema} */
  const known = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, withoutTexts(value)]));
  if (properties) known.properties = Object.fromEntries(Object.entries(properties).filter(([name]) => !isText(name)).map(([name, value]) => [name, withoutTexts(value)]));
  if (required) known.required = required.filter((/** @type {string} */ name) => !isText(name));
  return known;
}

const $defs = plain(withoutTexts(JSON.parse(readFileSync(SCHEMA, "utf8")).$defs));
/** The type that holds the others together; nobody needs it. */
const ROOT = "EveryType";
const made = await compile(
  { title: ROOT, type: "object", additionalProperties: false, properties: Object.fromEntries(Object.keys($defs).map((name) => [name, { $ref: `#/$defs/${name}` }])), $defs },
  ROOT,
  { additionalProperties: false, bannerComment: BANNER, format: true, style: { printWidth: 140 }, strictIndexSignatures: false },
);
const text = made.replace(new RegExp(`export interface ${ROOT} \\{[^]*?\\n\\}\\n`), "");
if (process.argv.includes("--check")) {
  if (readFileSync(TYPES, "utf8") !== text) {
    console.error("src/types.ts is not what docs/schema/api.json gives; run npm run types:generate and commit it");
    process.exit(1);
  }
  console.log("src/types.ts is what docs/schema/api.json gives");
} else {
  writeFileSync(TYPES, text);
  console.log(`${fileURLToPath(TYPES)}: ${Object.keys($defs).length} types`);
}
