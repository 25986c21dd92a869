from koordpy.qos import node_slo


def test_absent_sections_have_the_defaults():
    spec = node_slo.merged({})
    assert spec["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 65
    assert spec["resourceUsedThresholdWithBE"]["enable"] is False
    assert spec["hostApplications"] == []


def test_present_values_win_and_the_rest_stays():
    spec = node_slo.merged({"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": None}})
    assert spec["resourceUsedThresholdWithBE"]["enable"] is True
    assert spec["resourceUsedThresholdWithBE"]["cpuSuppressPolicy"] == "cpuset"


def test_values_of_a_disabled_section_have_no_effect():
    given = {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": False, "groupIdentity": 2}}}}
    assert node_slo.merged(given)["resourceQOSStrategy"]["lsClass"]["cpuQOS"]["groupIdentity"] == 0
    given["resourceQOSStrategy"]["lsClass"]["cpuQOS"]["enable"] = True
    assert node_slo.merged(given)["resourceQOSStrategy"]["lsClass"]["cpuQOS"]["groupIdentity"] == 2


def test_only_extensions_with_a_registered_default_survive():
    spec = node_slo.merged(
        {"extensions": {"Object": {"mine": {"a": 1}, "other": 1}}}, {"mine": {"a": 0, "b": 2}}
    )
    assert spec["extensions"] == {"mine": {"a": 1, "b": 2}}


def test_merging_leaves_the_defaults_alone():
    node_slo.merged({"cpuBurstStrategy": {"policy": "auto"}})["systemStrategy"]["watermarkScaleFactor"] = 1
    assert node_slo.merged({})["cpuBurstStrategy"]["policy"] == "none"
    assert node_slo.merged({})["systemStrategy"]["watermarkScaleFactor"] == 150
