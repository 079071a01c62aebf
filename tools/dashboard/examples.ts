// The contract's examples have the shapes that the page reads: a renamed field fails the type check, not the page.

import live from "../../tandem/contract/examples/live.json";
import parallel from "../../tandem/contract/examples/live-parallel.json";
import summary from "../../tandem/contract/examples/summary.json";
import system from "../../tandem/contract/examples/system.json";
import usage from "../../tandem/contract/examples/usage.json";

export const shapes: [Wire.Live, Wire.Live, Wire.System, Wire.Summary, Wire.Usage] = [live, parallel, system, summary, usage];
