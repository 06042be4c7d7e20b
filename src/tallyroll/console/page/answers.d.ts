// What the console's server answers: src/tallyroll/console/answers.py. For the types alone.

export interface Sums {
  events: number;
  sum: string;
  retracted?: { events: number; sum: string };
}
export interface Told {
  pipeline: string;
  now: number;
  read_units_a_minute: number;
  as_of?: number;
}
export interface Counted extends Sums {
  key: string;
  as_of: number;
  complete: boolean;
  followed: boolean;
  parts?: [number, number | null][];
}
export interface Ranking extends Sums {
  keys: number;
  as_of: number;
  complete: boolean;
}
export interface Tonight extends Told {
  window: string;
  state: string;
  since: number;
  until: number;
  complete: boolean;
  missing: Record<string, string>;
  counts: Counted[];
  ranking: Ranking | null;
}
export interface Place {
  window: string;
  state: string;
  table: string | null;
  shards: number;
  archive?: string;
}
export interface CountFound extends Sums {
  key: string;
  as_of: string;
  complete: boolean;
  missing?: string[];
  rolled_up?: (Sums & { period: string; windows: number })[];
}
export interface Match extends Place {
  key: string;
  id: string;
  record: string;
  shard: number | null;
  ts?: number;
  value?: string;
  events?: unknown[];
  payload?: unknown;
  payload_ref?: unknown;
  retracted?: { by: string };
}
export interface Find extends Told {
  count: CountFound;
  places: (Place & { events: number })[];
  matches: Match[];
  archived?: { window: string; archive: string }[];
}
export interface Keys extends Told {
  keys: (Sums & { key: string })[];
}
export interface Letter {
  letter: string;
  message: string;
  reason: string;
  detail?: string;
  window?: string;
  sent: string;
  expires: string;
  body_lies_in?: string;
  body: string;
}
export interface Letters extends Told {
  seen: number;
  expected: number;
  groups: { reason: string; window: string | null; count: number; oldest: string; expires: string }[];
  letters: Letter[];
}
export interface Windowed {
  window: string;
  state: string;
  start: string;
  times: Record<string, string>;
  since?: string;
  late?: string;
  remedy?: string;
  hot?: Record<string, number>;
  shards?: number;
  keys?: number;
  events?: number;
  archive?: string;
  items?: number;
  problem?: string;
}
export interface Windows extends Told {
  older: number;
  missing: string[];
  windows: Windowed[];
}
export interface Health extends Told {
  status: {
    queue?: { visible: number; in_flight: number; delayed: number };
    oldest_sent?: string;
    counted_up_to?: string;
    window?: { window: string; state: string | null; takes_events: boolean };
    dead_letters?: number;
    rate?: number;
  };
  alarms: { name: string; state: string; says: string }[];
  gauges: Record<string, [number, number][]>;
  unknown: Record<string, string>;
  shape: { shards: number; stripes_min: number; gates: number; hot: Record<string, number> } | null;
}
export interface Checks extends Told {
  checks: { check: string; level: string; text: string; signs: { text: string; remedy?: string }[] }[];
}
