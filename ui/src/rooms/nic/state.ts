// What this room knows, as signals.

import { computed, signal } from "@preact/signals";
import { given, go } from "../../address.ts";
import type { Nic, NicCampaign, NicMovie, Table } from "../../types.ts";
import { keyOf, OUTCOMES } from "./campaign.ts";

/** The interfaces; `null` until the server was asked. */
export const nic = signal<Nic | null>(null);
/** Why there is no newer answer; empty when all is well. */
export const nicProblem = signal("");
/** The chosen interface; empty for the one that needs a look most. */
export const chosenInterface = computed(() => given.value.interface ?? "");

export function chooseInterface(name: string | null): void {
  go({ interface: name });
}

// Fault campaigns.

/** Faults of one page of the list. */
export const FAULTS_SHOWN = 20;

/** The tables and the list of faults; `null` until the server was asked. */
export const campaign = signal<NicCampaign | null>(null);
export const campaignProblem = signal("");
/** The movie; `null` until it came. */
export const movie = signal<NicMovie | null>(null);
export const movieProblem = signal("");

/** The chosen table: that of the address, otherwise the first. */
export const chosenTable = computed<Table | null>(() => {
  const tables = campaign.value?.tables ?? [];
  return tables.find((table) => keyOf(table) === given.value.campaign) ?? tables[0] ?? null;
});
/** The outcome whose faults are listed; empty for none. */
export const chosenOutcome = computed(() => OUTCOMES.find((outcome) => outcome === given.value.outcome) ?? "");
export const faultsFrom = computed(() => Number(/^\d{1,9}$/.exec(given.value.faults_from ?? "") ?? 0));
/** The id of the fault whose movie is shown; empty for none. */
export const chosenFault = computed(() => given.value.fault ?? "");

export function chooseTable(table: Table): void {
  go({ campaign: keyOf(table), outcome: null, faults_from: null, fault: null });
}

export function chooseOutcome(table: Table, outcome: string | null): void {
  go({ campaign: keyOf(table), outcome, faults_from: null, fault: null });
}

export function chooseFaultsFrom(from: number): void {
  go({ faults_from: from === 0 ? null : `${from}` });
}

export function chooseFault(id: string | null): void {
  go({ fault: id });
}

export function findProblems(): string[] {
  const { outcome, faults_from, campaign: table, interface: name } = given.value;
  const said: string[] = [];
  const [tables, interfaces] = [campaign.value?.tables, nic.value?.interfaces];
  if (table !== undefined && tables && !tables.some((one) => keyOf(one) === table)) said.push("campaign names none of the tables here; the first is shown.");
  if (name !== undefined && interfaces && !interfaces.some((one) => one.name === name)) said.push("interface names none of the interfaces here; another one is shown.");
  if (outcome !== undefined && chosenOutcome.value === "") said.push(`outcome is one of ${OUTCOMES.join(", ")}; it is left out.`);
  if (faults_from !== undefined && `${faultsFrom.value}` !== faults_from) said.push("faults_from is a whole number; it is left out.");
  return said;
}
