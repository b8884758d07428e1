#!/usr/bin/env python3
"""Maps the names of ABI 0.9 and of the host before decision 0030 to those after it, in place, in the repository it is run in.

Usage: docs/decisions/0030-names.py [--files]     --files also moves the files
Running it twice changes nothing more. It is how plugins, branches and printed programs from before are brought over.
"""
import os
import re
import subprocess
import sys

# Units of runtime/ (.h and .cc) and their new names.
UNITS = {
    "program/op": "program/lower_op",
    "program/collective_form": "program/collective_operands",
    "passes/base": "passes/build_program",
    "passes/dead_work": "passes/dce",
    "passes/finish": "passes/finalize",
    "passes/local_model": "passes/shard_model",
    "passes/staging": "passes/host_staging",
    "memory/lifetimes": "memory/live_ranges",
    "memory/placement": "memory/first_fit",
    "memory/memory": "memory/memory_plan",
    "verify/findings": "verify/diagnostics",
    "verify/meaning": "verify/placement",
    "verify/meaning_collective": "verify/placement_collective",
    "verify/meaning_compute": "verify/placement_compute",
    "verify/meaning_rules": "verify/placement_rules",
    "verify/meaning_step": "verify/placement_step",
    "verify/meaning_tensor": "verify/placement_tensor",
    "verify/verify_meaning": "verify/verify_placement",
    "verify/meetings": "verify/collective_matching",
    "verify/rank_graph": "verify/wait_graph",
    "verify/subject": "verify/data_origin",
    "compile/edit": "compile/pass_runner",
    "compile/edit_session": "compile/rewriter",
    "compile/snapshot": "compile/program_snapshot",
    "exec/crossing": "exec/cross_device_sync",
    "exec/step": "exec/command",
    "exec/prepare": "exec/command_builder",
    "plan/what_fits": "plan/memory_advisor",
    "plan/proof": "plan/verification_summary",
    "plan/planned_job": "plan/job_plan",
    "train/agree": "train/consistency",
    "train/local_ranks": "train/thread_ranks",
    "launch/agreement": "launch/fingerprint",
    "config/recompute": "config/recompute_option",
    "base/text": "base/concat",
}
TESTS = {
    "tests/conformance/device_gate_test": "tests/conformance/device_semaphore_test",
    "tests/support/expect_finding": "tests/support/expect_diagnostic",
    "tests/unit/agree_test": "tests/unit/consistency_test",
    "tests/unit/agreement_test": "tests/unit/fingerprint_test",
    "tests/unit/edit_test": "tests/unit/rewriter_test",
    "tests/unit/local_model_test": "tests/unit/shard_model_test",
    "tests/unit/staging_test": "tests/unit/host_staging_test",
    "tests/unit/verify_meaning_storage_test": "tests/unit/verify_placement_storage_test",
    "tests/unit/verify_meaning_test": "tests/unit/verify_placement_test",
}

ANY = r""
HOST = r"^(runtime|tests|docs)/"
VERIFY = r"^runtime/verify/|^tests/unit/verify_|^docs/architecture"
MEMORY = r"^runtime/memory/|^runtime/plan/memory_report|^tests/unit/pipeline_program|^tests/unit/memory_plan|^tests/unit/live"
PLAN = r"^runtime/(plan|cli|train)/|^tests/"
TRAIN = r"^runtime/(train|cli)/|^tests/(unit/(consistency|agree|evaluation|lost_run|train)|support/)"

# (files, words): whole identifiers, in this order.
WORDS = [
    # The ABI.
    (ANY, {
        "tsr_split": "tsr_layout_entry", "add_split": "add_entry", "num_splits": "num_layout_entries",
        "tsr_gate": "tsr_semaphore", "tsr_device_gate": "tsr_device_semaphore", "TSR_DEVICE_GATE": "TSR_DEVICE_SEMAPHORE",
        "TSR_NAME_POSITION": "TSR_DIM_POSITIONS", "TSR_NAME_BATCH": "TSR_DIM_BATCH", "TSR_NAME_SEQ": "TSR_DIM_SEQ",
        "TSR_NAME_HEADS": "TSR_DIM_HEADS", "TSR_NAME_EMBED": "TSR_DIM_EMBED", "TSR_NAME_FFN": "TSR_DIM_FFN",
        "TSR_NAME_VOCAB": "TSR_DIM_VOCAB", "TSR_NAME_CLASSES": "TSR_DIM_CLASSES",
        "tsr_comm_create": "tsr_comm_create_args", "tsr_device_open": "tsr_device_open_args",
        "tsr_strategy_create": "tsr_strategy_create_args",
        "TSR_REDUCE_EVERY_STEP": "TSR_EVERY_STEP", "TSR_REDUCE_EVERY_MICRO_BATCH": "TSR_EVERY_MICRO_BATCH",
        "TSR_ACTION_ADD": "TSR_ACTION_ADD_INTO",
    }),
    # program/
    (HOST, {
        "StepShape": "StepConfig", "Stretch": "HomeRange", "stretches_of": "ranges_of", "stretches": "ranges",
        "stretch": "range", "split_on": "entry_on", "CollectiveForm": "CollectiveOperands",
        "base_program": "build_program", "remove_dead_work": "eliminate_dead_code", "finish_program": "finalize_program",
        "local_model": "shard_model", "Clocks": "VectorClocks",
        "EditSession": "Rewriter", "Snapshot": "ProgramSnapshot",
        "Crossing": "CrossDeviceSync", "make_crossing_to": "make_sync_to", "make_crossing_to_host": "make_sync_to_host",
    }),
    (r"^(runtime|tests)/", {"Split": "LayoutEntry"}),
    # memory/, before verify/ takes the word placement
    (r"^runtime/memory/", {"Placement": "Addresses", "placement": "addresses"}),
    (MEMORY, {
        "Lifetime": "LiveRange", "Conflicts": "Interference", "lifetimes_in": "live_ranges_in",
        "lifetimes": "live_ranges", "lifetime": "live_range", "conflicts": "interference",
    }),
    # verify/
    (HOST, {
        "FindingList": "DiagnosticList", "Findings": "Diagnostics", "Finding": "Diagnostic", "findings": "diagnostics",
        "finding": "diagnostic", "findings_": "diagnostics_", "expect_finding": "expect_diagnostic",
        "RankGraph": "WaitGraph", "Meetings": "MatchedOps", "verify_meaning": "verify_placement",
        "Subject": "DataOrigin", "Subjects": "DataOrigins", "subject_text": "origin_text", "subject_at": "origin_at",
        "subject_text_at": "origin_text_at",
        "Meaning": "Placement", "MeaningPart": "PlacementPart", "MeaningParts": "PlacementParts",
        "MeaningPair": "PlacementPair", "MeaningMap": "PlacementMap", "MeaningRules": "PlacementRules",
        "meaning_of_sum": "placement_of_sum", "common_meaning": "common_placement", "meaning_text": "placement_text",
    }),
    (VERIFY, {
        "meaning": "placement", "meanings": "placements", "meanings_": "placements_", "Place": "ActionRef",
        "subject": "origin", "subjects": "origins", "subjects_": "origins_", "State": "PlacementKind",
        "meetings": "matched_ops", "meetings_": "matched_ops_",
    }),
    (r"^runtime/plan/", {"Place": "ActionRef", "meetings": "matched_ops"}),
    # plan/
    (PLAN, {
        "Misfit": "MemoryShortfall", "find_misfit": "find_shortfall", "misfit_text": "shortfall_text",
        "misfit": "shortfall", "Proof": "VerificationSummary", "count_proof": "summarize_verification",
        "proof_text": "verification_text", "PlannedJob": "JobPlan", "StageItem": "StageAction",
    }),
    # train/, launch/
    (HOST, {
        "RankPlace": "RankInfo", "agree_on_job": "check_job_consistency",
        "agree_on_programs": "check_program_consistency", "all_say_yes": "all_ranks_agree", "wait_for_all": "barrier",
        "least_answer": "lowest_answer", "train_local_ranks": "train_thread_ranks",
        "require_agreement": "require_equal_fingerprints",
    }),
]
# (files, regular expression, replacement), after the words.
PATTERNS = [
    (ANY, r"tsr\.device\.gate/", "tsr.device.semaphore/"),
    (TRAIN, r"\bplace(?=[.,);]|->)(?<!own place)(?! in the)", "info"),
    (VERIFY, r"PlacementKind::split\b", "PlacementKind::shard"),
    (VERIFY, r"PlacementKind::different\b", "PlacementKind::varying"),
]
AMBIGUOUS = {"recompute", "memory", "placement", "text", "base", "step"}
TEXT = (".h", ".hpp", ".c", ".cc", ".cu", ".cuh", ".md", ".txt", ".cmake", ".sh", ".py", ".in", "dev")


def tracked():
    own = os.path.relpath(__file__, os.getcwd())
    skip = ("docs/decisions/", "tests/golden/", own)
    names = subprocess.check_output(["git", "ls-files"], text=True).split("\n")
    return [n for n in names if n.endswith(TEXT) and not n.startswith(skip) and os.path.isfile(n)]


def file_words():
    """Mentions of files: with their folder, and the bare name where only one unit has it."""
    moves = {**{f"runtime/{a}": f"runtime/{b}" for a, b in UNITS.items()}, **TESTS}
    patterns = []
    for old, new in sorted(moves.items(), key=lambda m: -len(m[0])):
        short_old, short_new = (n.removeprefix("runtime/").removeprefix("tests/support/") for n in (old, new))
        patterns.append((re.compile(rf"(?<![\w/]){re.escape(old)}\.(h|cc)\b"), rf"{new}.\1"))
        patterns.append((re.compile(rf"(?<![\w/]){re.escape(short_old)}\.(h|cc)\b"), rf"{short_new}.\1"))
        bare, bare_new = os.path.basename(old), os.path.basename(new)
        if bare not in AMBIGUOUS:
            patterns.append((re.compile(rf"(?<![\w/.-]){re.escape(bare)}\.(h|cc)\b"), rf"{bare_new}.\1"))
    return moves, patterns


def in_folder(moves, name):
    """Bare names, as CMakeLists.txt lists them and test targets are called."""
    patterns = []
    folder = os.path.dirname(name)
    if not name.endswith("CMakeLists.txt"):
        return patterns
    for old, new in sorted(moves.items(), key=lambda m: -len(m[0])):
        if os.path.dirname(old) == folder:
            a, b = os.path.basename(old), os.path.basename(new)
            patterns.append((re.compile(rf"(?<![\w/]){a}\b(?=\.cc|\.h|$|\))" if folder.startswith("runtime")
                                        else rf"(?<![\w/]){a}\b"), b))
    return patterns


def main():
    moves, mentions = file_words()
    if "--files" in sys.argv:
        for old, new in moves.items():
            for end in (".h", ".cc"):
                if os.path.isfile(old + end):
                    subprocess.check_call(["git", "mv", old + end, new + end])
    for name in tracked():
        before = text = open(name, encoding="utf-8").read()
        for pattern, new in mentions + in_folder(moves, name):
            text = pattern.sub(new, text)
        for where, words in WORDS:
            if re.search(where, name):
                text = re.sub(r"\b(" + "|".join(words) + r")\b", lambda m: words[m.group(1)], text)
        for where, pattern, new in PATTERNS:
            if re.search(where, name):
                text = re.sub(pattern, new, text)
        if text != before:
            open(name, "w", encoding="utf-8").write(text)


main()
