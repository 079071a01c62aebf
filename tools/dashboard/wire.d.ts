// Shapes of tandem/contract/*.schema.json as the page reads them. `make check` holds them against contract/examples/.
// They exist for the type check alone and are not served.

declare namespace Wire {
  type Text = string | null;
  type Num = number | null;

  interface Session {
    password_set: boolean;
    login: boolean;
    session_ends: Num;
  }

  interface Live {
    seq: number;
    generated_at: string;
    interval_s: number;
    engine: Engine;
    counts: Counts;
    now: Now;
    requests: Row[];
    recent: End[];
    parallel?: Parallel | undefined;
    sample?: Sample | null;
    history?: Sample[];
  }
  interface Engine {
    state: string;
    label: string;
    since_ms: Num;
    model: string;
    base_model: string;
    version: string;
    kv: { length: Num; limit: Num } | null;
    memory: { rss_bytes: Num } | null;
  }
  /** Only with side slots. */
  interface Parallel {
    slots: Slot[];
    turn: { slots: number[]; hand_overs: number };
    rounds: Record<string, number>;
    lane: { waiting: number; served: Record<string, number> };
    admission: { reserved_bytes: number; floor_bytes: number; available_bytes: Num; waits: number; waiting: string[] } | null;
    meeting: Record<string, Record<string, number>>;
  }
  interface Slot {
    slot: number;
    state: string;
    request_id: Text;
    label: string;
    since_ms: Num;
    gpu_s: number;
    guests: { request_id: string; label: string }[];
  }
  interface Counts {
    in_flight: number;
    queued: number;
    lane: number;
    prefilling: number;
    decoding: number;
    completed_1m: number;
    served: number;
    errors: number;
    refused: number;
  }
  interface Now {
    decode_tps: Num;
    prefill_tps: Num;
    tokens_per_block: Num;
  }
  interface Sample {
    t: number;
    decode_tps: Num;
    prefill_tps: Num;
    running: number;
    waiting: number;
  }
  interface Row {
    request_id: string;
    phase: string;
    status: Num;
    finish_reason: Text;
    model: Text;
    client_kind: string;
    client_id: string;
    endpoint: string;
    elapsed_ms: number;
    queue_ms: Num;
    prompt_ms: Num;
    ttft_ms: Num;
    decode_ms: Num;
    prompt_tokens: Num;
    cached_tokens: Num;
    completion_tokens: Num;
    reasoning_tokens: Num;
    tokens_per_block: Num;
    decode_tps: Num;
    max_tokens: Num;
    lane: Text;
    slot: Num;
    line: Text;
    sentence: Text;
    tone: Text;
    activity: Activity | null;
    timeline: { state: string; at_ms: number }[];
  }
  interface Activity {
    state: string;
    label: string;
    conductor?: { label: string; mode: string; acts: number; supervising: boolean } | undefined;
    prefill: { done: number; total: number; eta_s: Num; image: { number: number; of: number } | null } | null;
  }
  interface End {
    request_id: string;
    ended_at: string;
    endpoint: string;
    model: Text;
    client_kind: string;
    sentence: string;
    tone: string;
    prompt_tokens: Num;
    completion_tokens: Num;
    total_ms: Num;
  }

  interface System {
    status: string;
    model: string;
    base_model: string;
    version: string;
    identity: Record<string, string | null>;
    started_at: number;
    uptime_s: number;
    card: { architecture: Text; context_length: Num; vocabulary: Num; prefill_grid: Num };
    weights: Record<string, unknown>;
    settings: Setting[];
    unknown_variables: string[];
    access: { password_set: boolean; login: boolean };
    privacy: { log_content: boolean; log_request_keys: boolean };
    memory: Memory;
    disk: { path: string; total_bytes: Num; free_bytes: Num } | null;
    cache: { caches: Cache[] } | null;
    queue: Queue | null;
    lane?: Lane | undefined;
    parallel?: SharedSlots | undefined;
    totals: Totals | null;
    ledger: { enabled: boolean; rows: number; bytes: number; queue: number; dropped: number } | null;
    images: { state: string; max_images: number; max_image_rows: number };
    live: { readers: number; log_readers: number };
    watch: { stuck: string[]; off: string[]; loop_lag_ms: Num } | null;
    failed: string[];
  }
  interface Setting {
    name: string;
    flag: Text;
    variable: Text;
    group: string;
    help: string;
    value: string;
    default: string;
    source: string;
  }
  /** What the system does not tell is missing. */
  interface Memory {
    allocated_bytes?: number | undefined;
    resident_bytes?: number | undefined;
    peak_bytes?: number | undefined;
    available_bytes?: number | undefined;
    total_bytes?: number | undefined;
    gate?: { reserved_bytes: number; ceiling_bytes: number; peak_bytes: number } | undefined;
  }
  interface Cache {
    name: string;
    entries: Num;
    bytes: Num;
    budget_bytes: Num;
    hits: Num;
    misses: Num;
    evictions: Num;
  }
  interface Queue {
    running: number;
    waiting: number;
    max_queue: number;
    queue_timeout_s: number;
    request_timeout_s: number;
    slots: { slot: number; phase: string }[];
  }
  /** Missing where the side lane is off. */
  interface Lane {
    mode: string;
    waiting: number;
    served: Record<string, number | undefined>;
  }
  interface SharedSlots {
    slots: { slot: number; phase: string; gpu_s: number }[];
    turn: { holder: Num; hand_overs: number };
    rounds: Record<string, number | undefined>;
    admission?: { reserved_bytes: number; floor_bytes: number; available_bytes?: number | undefined; waits: number } | undefined;
  }
  interface Totals {
    served: number;
    refused: Record<string, number>;
    errors: number;
    timeouts: number;
    abandoned: number;
  }

  type Share = "p10" | "p50" | "p90" | "p99";
  type Metric = "decode_tps" | "ttft_ms" | "prefill_tps";
  interface Sums {
    requests: number;
    finishes: Record<string, number>;
    prompt_tokens: number;
    cached_tokens: number;
    completion_tokens: number;
    reasoning_tokens: number;
  }
  interface Timed extends Sums {
    speed: Record<Metric, Record<Share, Num> & { count: number }>;
  }
  interface Bucket extends Timed {
    start: string;
    end: string;
  }
  interface TopDay {
    date: string;
    requests: number;
    total_tokens: number;
  }
  interface Dimension {
    name: Text;
    requests: number;
  }
  interface Usage {
    buckets: Bucket[];
    totals: Timed;
    dimensions: { models: Dimension[]; clients: Dimension[] };
  }
  interface Summary {
    first_day: Text;
    totals: { today: Sums; days_7: Sums; days_30: Sums; days_365: Sums; all: Sums };
    streaks: { current: number; longest: number; active_days: number };
    top_days: TopDay[];
    ledger: { enabled: boolean };
  }
}
